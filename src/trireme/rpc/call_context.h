// What a function that was called from elsewhere may know of its call.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "trireme/core/deadline.h"
#include "trireme/rpc/cancel_token.h"
#include "trireme/rpc/escort.h"
#include "trireme/rpc/executor.h"
#include "trireme/rpc/worker.h"

namespace trireme::rpc {

/// One call, as the callee sees it.
struct CallContext {
  /// Who has called. Shared: all its calls have the same.
  std::shared_ptr<const WorkerInfo> caller{};
  /// The function's name.
  std::string function{};
  /// When the caller gives up: later work is for nobody.
  Deadline deadline = Deadline::after(Deadline::kLongest);
  /// Raised when the caller does not want it any more.
  CancelToken cancel{};
  /// The same for all calls that one call has led to.
  std::uint64_t trace = 0;
  /// The agent that was called, for as long as it is there; see this_agent().
  std::weak_ptr<void> home{};
  /// Where this call goes on when it has waited, as long as the agent is there.
  Executor* resumer = nullptr;
  /// In how many other calls it was made: 0 for a call of a user.
  int depth = 0;
  /// Who has come with it; null for nobody.
  std::shared_ptr<CallEscort> escort{};
};

using CallPointer = std::shared_ptr<const CallContext>;

namespace call_detail {
inline CallPointer& current() {
  thread_local CallPointer call;
  return call;
}
}  // namespace call_detail

/// The call that this thread works for; null outside of any. Functions that go on with
/// it on another thread find it there too if they come by Future::then().
///
///     if (const CallContext* call = this_call()) call->cancel.throw_if_cancelled();
inline const CallContext* this_call() {
  return call_detail::current().get();
}

/// The same, to be kept.
inline const CallPointer& share_this_call() {
  return call_detail::current();
}

/// This thread works for a call as long as the scope lives.
class CallScope {
 public:
  explicit CallScope(CallPointer call)
      : former_(std::exchange(call_detail::current(), std::move(call))) {}
  ~CallScope() { call_detail::current() = std::move(former_); }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  CallPointer former_;
};

/// The deadline of a call that this thread makes with `wish`: no later than that of the
/// call that it works for, since nobody waits for longer.
inline Deadline nested_deadline(const Deadline& wish) {
  const CallContext* call = this_call();
  return call && call->deadline.remaining() < wish.remaining() ? call->deadline : wish;
}

/// A token for a call that this thread makes: cancelled with the one that it works for.
inline CancelToken nested_token() {
  const CallContext* call = this_call();
  return call ? call->cancel.child() : CancelToken::make();
}

}  // namespace trireme::rpc
