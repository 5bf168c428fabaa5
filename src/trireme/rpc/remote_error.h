// What a function has thrown on another worker.
#pragma once
#include <exception>
#include <string>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/rpc/call_payload.h"

namespace trireme::rpc {

/// A function has thrown on the worker that ran it.
///
///     try {
///       agent.to("server").call(step, gradients);
///     } catch (const rpc::RemoteError& e) {
///       std::cerr << e.worker() << ": " << e.text();
///     }
class RemoteError : public Error {
 public:
  RemoteError(const std::string& function, std::string worker, Fault fault)
      : Error(trireme::text(
            "[rpc] expected a result of ",
            function,
            " from worker ",
            worker,
            ", got ",
            fault.type,
            ": ",
            fault.text,
            "; mend it there, or catch it here")),
        worker_(std::move(worker)),
        fault_(std::move(fault)) {}

  /// The worker that was called. If that has only passed on what a call of its own has
  /// met, text() begins with the worker where that was: "(on worker b) no such file".
  const std::string& worker() const { return worker_; }
  /// The type of the exception there: "std::runtime_error".
  const std::string& type() const { return fault_.type; }
  /// What it said there.
  const std::string& text() const { return fault_.text; }

 private:
  std::string worker_;
  Fault fault_;
};

/// What is known of an exception, for another worker; also of one that is no
/// std::exception.
Fault fault_of(const std::exception_ptr& error);

}  // namespace trireme::rpc
