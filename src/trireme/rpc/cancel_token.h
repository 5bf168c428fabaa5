// How work learns that nobody wants it any more.
#pragma once
#include <memory>
#include <string>

#include "trireme/rpc/small_function.h"

namespace trireme::rpc {

class CancelRegistration;

/// A flag that is raised once and for all, with a reason. Copies are the same token;
/// all of it is safe for threads. A default one is never cancelled, and costs nothing.
///
///     for (auto& batch : batches) {
///       token.throw_if_cancelled();
///       work(batch);
///     }
class CancelToken {
 public:
  using Callback = SmallFunction<void(const std::string& why)>;

  CancelToken() = default;
  /// One that can be cancelled.
  static CancelToken make();
  /// One that is cancelled with this one, and can be cancelled alone.
  CancelToken child() const;

  bool cancelled() const;
  /// The reason; empty as long as it is not cancelled.
  std::string why() const;
  /// Throws Cancelled if it is.
  void throw_if_cancelled() const;

  /// Cancels, and runs the callbacks of all that want to know, here, one after the
  /// other. False if it was cancelled before, or is a default one.
  bool cancel(const std::string& why) const;

  /// Calls `callback` when it is cancelled, at once if it is already, unless the
  /// registration has been destroyed. What the callback throws is logged.
  [[nodiscard]] CancelRegistration on_cancel(Callback callback) const;

  bool operator==(const CancelToken&) const = default;

  /// The token for one that keeps it and need not know what it is, and back.
  std::shared_ptr<void> share() const { return state_; }
  static CancelToken shared(const std::shared_ptr<void>& token) {
    return CancelToken(std::static_pointer_cast<State>(token));
  }

 private:
  friend class CancelRegistration;
  struct Entry;
  struct State;
  explicit CancelToken(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Keeps a callback of a token in place. When its destructor has returned, the callback
/// is not running and never will, so what it uses may go; only from inside the callback
/// itself it returns at once.
class CancelRegistration {
 public:
  CancelRegistration();
  CancelRegistration(CancelRegistration&&) noexcept;
  CancelRegistration& operator=(CancelRegistration&&) noexcept;
  ~CancelRegistration();

  void reset() noexcept;

 private:
  friend class CancelToken;
  using Entry = CancelToken::Entry;
  CancelRegistration(
      std::shared_ptr<CancelToken::State> state, std::unique_ptr<Entry> entry);
  std::shared_ptr<CancelToken::State> state_;
  std::unique_ptr<Entry> entry_;
};

}  // namespace trireme::rpc
