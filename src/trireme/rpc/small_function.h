// A function that can be moved and called, and mostly needs no memory of its own.
#pragma once
#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "trireme/core/error.h"

namespace trireme::rpc {

template <class Signature, std::size_t kRoom = 48>
class SmallFunction;

/// Holds any callable; move-only ones too, which std::function refuses. One of at most
/// kRoom bytes that moves without throwing lies inside, a larger one on the heap.
///
///     SmallFunction<void()> task = [tensor = std::move(tensor)] { use(tensor); };
///     task();
template <class Result, class... Arguments, std::size_t kRoom>
class SmallFunction<Result(Arguments...), kRoom> {
 public:
  SmallFunction() = default;
  SmallFunction(std::nullptr_t) {}
  template <class Callable>
  requires(
      !std::same_as<std::decay_t<Callable>, SmallFunction> &&
      std::is_invocable_r_v<Result, std::decay_t<Callable>&, Arguments...>)
      SmallFunction(Callable&& callable) {
    using Own = std::decay_t<Callable>;
    if constexpr (kFits<Own>) {
      new (room_) Own(std::forward<Callable>(callable));
      ways_ = &kInside<Own>;
    } else {
      new (room_) Own*(new Own(std::forward<Callable>(callable)));
      ways_ = &kOutside<Own>;
    }
  }
  SmallFunction(SmallFunction&& other) noexcept { steal(other); }
  SmallFunction& operator=(SmallFunction&& other) noexcept {
    if (this != &other) {
      reset();
      steal(other);
    }
    return *this;
  }
  ~SmallFunction() { reset(); }
  SmallFunction(const SmallFunction&) = delete;
  SmallFunction& operator=(const SmallFunction&) = delete;

  explicit operator bool() const { return ways_ != nullptr; }

  /// Calls what is held; there must be something.
  Result operator()(Arguments... arguments) {
    TRIREME_ASSERT(ways_ != nullptr);
    return ways_->call(room_, std::forward<Arguments>(arguments)...);
  }

  /// Destroys what is held.
  void reset() noexcept {
    // First empty, then destroy: the end of what is held may look here.
    if (const Ways* ways = std::exchange(ways_, nullptr))
      ways->destroy(room_);
  }

  /// Whether a callable of this type lies inside.
  template <class Callable>
  static constexpr bool kFits = sizeof(Callable) <= kRoom &&
                                alignof(Callable) <= alignof(std::max_align_t) &&
                                std::is_nothrow_move_constructible_v<Callable>;

 private:
  // What can be done with a callable whose type is forgotten.
  struct Ways {
    Result (*call)(std::byte*, Arguments&&...);
    void (*move)(std::byte* from, std::byte* to) noexcept;
    void (*destroy)(std::byte*) noexcept;
  };

  template <class Callable>
  static Callable& at(std::byte* room) {
    return *std::launder(reinterpret_cast<Callable*>(room));
  }
  template <class Callable>
  static constexpr Ways kInside{
      [](std::byte* room, Arguments&&... arguments) -> Result {
        return static_cast<Result>(
            at<Callable>(room)(std::forward<Arguments>(arguments)...));
      },
      [](std::byte* from, std::byte* to) noexcept {
        new (to) Callable(std::move(at<Callable>(from)));
        at<Callable>(from).~Callable();
      },
      [](std::byte* room) noexcept { at<Callable>(room).~Callable(); }};
  template <class Callable>
  static constexpr Ways kOutside{
      [](std::byte* room, Arguments&&... arguments) -> Result {
        return static_cast<Result>(
            (*at<Callable*>(room))(std::forward<Arguments>(arguments)...));
      },
      [](std::byte* from, std::byte* to) noexcept {
        new (to) Callable*(at<Callable*>(from));
      },
      [](std::byte* room) noexcept { delete at<Callable*>(room); }};

  void steal(SmallFunction& other) noexcept {
    ways_ = std::exchange(other.ways_, nullptr);
    if (ways_)
      ways_->move(other.room_, room_);
  }

  alignas(std::max_align_t) std::byte room_[kRoom];
  const Ways* ways_ = nullptr;
};

}  // namespace trireme::rpc
