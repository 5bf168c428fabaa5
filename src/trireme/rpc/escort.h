// What goes along with calls, for those who build upon agents: gradients do.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/rpc/worker.h"

namespace trireme::rpc {

class AgentCore;

/// One call, on one side of it. The caller's is told once what became of the call, the
/// callee's only if there is a result.
class CallEscort {
 public:
  CallEscort() = default;
  CallEscort(const CallEscort&) = delete;
  CallEscort& operator=(const CallEscort&) = delete;
  virtual ~CallEscort() = default;

  /// The result's tensors: on the callee before they leave, on the caller when somebody
  /// looks at them. They may be changed, for others in their place.
  virtual void pass(std::vector<at::Tensor>& result) = 0;
  /// There will be no result.
  virtual void lose() noexcept {}
};

/// Sees the tensors of all calls of an agent, on both sides, and may say something to
/// its like on the other one. Its functions are called by any thread.
class Escort {
 public:
  Escort() = default;
  Escort(const Escort&) = delete;
  Escort& operator=(const Escort&) = delete;
  virtual ~Escort() = default;

  /// The agent begins.
  virtual void start(std::weak_ptr<AgentCore> core) = 0;
  /// A call leaves. Null if nobody goes with it; else `note` travels, and is not empty.
  virtual std::shared_ptr<CallEscort> leave(
      WorkerId to,
      const std::string& function,
      const std::vector<at::Tensor>& arguments,
      std::string& note) = 0;
  /// A call has come with a note, before its function runs. What it throws, the caller
  /// gets.
  virtual std::shared_ptr<CallEscort> arrive(
      WorkerId from,
      const std::string& function,
      std::string_view note,
      std::vector<at::Tensor>& arguments) = 0;
  /// All that was shared with a worker is void: it is gone, or has begun anew.
  virtual void forget(WorkerId worker, const std::string& why) noexcept = 0;
};

}  // namespace trireme::rpc
