#include <utility>

#include "trireme/core/log.h"
#include "trireme/rpc/agent_core.h"
#include "trireme/rpc/cancelled.h"
#include "trireme/rpc/remote_error.h"

namespace trireme::rpc {

namespace {

const char* in_words(Status status) {
  switch (status) {
    case Status::Value:
      return "value";
    case Status::Failed:
      return "failed";
    case Status::Refused:
      return "refused";
    case Status::Full:
      return "full";
    case Status::Lost:
      return "lost";
    case Status::Late:
      return "late";
    case Status::Cancelled:
      return "cancelled";
  }
  return "unknown";
}

InvalidArgument refusal(
    const std::string& function,
    const std::string& worker,
    const std::string& caller_role,
    const Signature& signature,
    const Fault& fault) {
  const std::string call =
      text("[rpc] expected a call of ", function, " on worker ", worker);
  if (fault.type == "signature")
    return InvalidArgument(text(
        call,
        " as ",
        fault.text,
        ", which is its signature there, got ",
        signature.text,
        "; call it as it is declared there"));
  if (fault.type == "unknown")
    return InvalidArgument(text(
        call,
        " to name a function of its table, got one that it does not have",
        fault.text,
        "; add it to the FunctionTable of that worker"));
  if (fault.type == "role")
    return InvalidArgument(text(
        call,
        " from a worker with role ",
        fault.text,
        ", got one from role ",
        caller_role,
        "; add the role to the function's list"));
  return InvalidArgument(
      text(call, " that it can read, got its refusal: ", fault.text));
}

}  // namespace

void CallEnd::finish(Outcome outcome) {
  if (tie_)
    tie_->end();
  const auto time = Time::clock::now() - start_;
  core_->counters(to_).ended(outcome.status, time);
  core_->counters(to_).bytes_in(bytes_of(outcome.payload));
  core_->leave(to_, bytes_);
  note(outcome.status, time);
  if (outcome.status == Status::Value)
    return take(std::move(outcome.payload), core_->options().limits);
  if (escort_)
    escort_->lose();
  try {
    fail(error_of(outcome));
  } catch (const InvalidArgument&) {
    fail(std::current_exception());  // the answer could not be read
  }
  // Behind whoever waits for it.
  if (outcome.status == Status::Late)
    core_->note_late(text());
}

// For those who look on.
void CallEnd::note(Status status, Time::duration time) {
  TRIREME_LOG(debug, "rpc") << text() << ": " << in_words(status) << " after "
                            << time_text(time) << ", trace " << std::hex << trace_;
  if (!core_->trace()->on())
    return;
  const auto ns = [](Time::duration t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t).count();
  };
  core_->trace()->add(
      {.side = CallSpan::Side::Caller,
       .function = function_,
       .other = to_,
       .trace = trace_,
       .call = span_,
       .start_ns = ns(start_.time_since_epoch()),
       .end_ns = ns(start_.time_since_epoch() + time),
       .end = in_words(status)});
}

std::string CallEnd::text() const {
  return trireme::text(
      function_, signature_->text, " on worker ", core_->worker(to_).name);
}

std::exception_ptr CallEnd::error_of(const Outcome& outcome) const {
  const std::string& worker = core_->worker(to_).name;
  switch (outcome.status) {
    case Status::Value:
      break;
    case Status::Failed:
      return std::make_exception_ptr(
          RemoteError(function_, worker, unpack_fault(outcome.payload)));
    case Status::Refused:
      return std::make_exception_ptr(refusal(
          function_,
          worker,
          core_->me().role,
          *signature_,
          unpack_fault(outcome.payload)));
    case Status::Full:
      return std::make_exception_ptr(Error(trireme::text(
          "[rpc] expected room for a call of ",
          function_,
          " on worker ",
          worker,
          ", got its answer that too many wait there; it has not run: call again "
          "later")));
    case Status::Lost:
      return std::make_exception_ptr(PeerError(
          to_,
          trireme::text(
              "[rpc] expected a result of ",
              function_,
              " from worker ",
              worker,
              ", got its loss (",
              outcome.why,
              "); it may have run or not: mark calls idempotent that may run twice")));
    case Status::Late:
      return std::make_exception_ptr(TimeoutError(trireme::text(
          "[rpc] expected a result of ",
          function_,
          " from worker ",
          worker,
          " within ",
          deadline_.allowed().count(),
          " ms, got none; it was told to stop: give it more time, or look what it "
          "waits for")));
    case Status::Cancelled:
      return std::make_exception_ptr(Cancelled(trireme::text(
          "[rpc] expected a result of ",
          function_,
          " from worker ",
          worker,
          ", got its cancellation; look who has cancelled it: the worker was told")));
  }
  return std::make_exception_ptr(
      InternalError("[rpc] a call has ended in no known way"));
}

}  // namespace trireme::rpc
