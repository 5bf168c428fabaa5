// One future of many.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/rpc/future.h"

namespace trireme::rpc {
namespace future_detail {

template <class T>
using AllOf = std::conditional_t<std::is_void_v<T>, void, std::vector<T>>;

template <class T>
class AllState final : public StateOf<AllOf<T>> {
 public:
  explicit AllState(std::vector<Future<T>> futures)
      : futures_(std::move(futures)), parts_(futures_.size()), left_(futures_.size()) {
    for (const Future<T>& future : futures_)
      future.state();  // refuses empty ones before anything is begun
  }

  Future<AllOf<T>> start() {
    Future<AllOf<T>> result(*this);
    if (futures_.empty()) {
      gather();
      return result;
    }
    this->on_cancel([this](const std::string& why) {
      for (const Future<T>& future : futures_)
        future.cancel(why);
      return StatePointer();
    });
    for (std::size_t i = 0; i < futures_.size(); ++i) {
      parts_[i].all = this;
      parts_[i].index = i;
      futures_[i].state().add(parts_[i]);
    }
    return result;
  }

 private:
  struct Part final : Continuation {
    void run() noexcept override { all->part_ready(index); }
    AllState* all = nullptr;
    std::size_t index = 0;
  };

  void part_ready(std::size_t index) noexcept {
    if (const std::exception_ptr& error = futures_[index].state().error())
      this->fail(error);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      gather();
  }
  // All have ended; the reference of those that ran goes.
  void gather() noexcept {
    try {
      if (!this->claimed())
        set_all();
    } catch (...) {
      this->fail(std::current_exception());
    }
    this->release(FutureState::kReference);
  }
  void set_all() {
    if constexpr (std::is_void_v<T>) {
      this->set();
    } else {
      std::vector<T> values;
      values.reserve(futures_.size());
      for (const Future<T>& future : futures_)
        values.push_back(future.take());
      this->set(std::move(values));
    }
  }

  std::vector<Future<T>> futures_;
  std::vector<Part> parts_;
  std::atomic<std::size_t> left_;
};

}  // namespace future_detail

/// Ready with all values in order when all are there, or with the first error at once.
/// Cancelling it cancels all of them.
///
///     std::vector<float> losses = all(std::move(calls)).get();
template <class T>
Future<future_detail::AllOf<T>> all(std::vector<Future<T>> futures) {
  auto state = std::make_unique<future_detail::AllState<T>>(std::move(futures));
  return state.release()->start();
}

}  // namespace trireme::rpc
