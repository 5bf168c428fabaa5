// What workers say to each other about contexts and passes: functions that every agent
// of `with_gradients()` serves.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "trireme/dist_autograd/fault.h"
#include "trireme/dist_autograd/ids.h"
#include "trireme/dist_autograd/pass.h"
#include "trireme/rpc/function_table.h"
#include "trireme/rpc/future.h"

namespace trireme::dist_autograd {

class Contexts;
class ContextState;

/// All names of ours begin so; such calls are in no context.
inline constexpr const char* kPrefix = "trireme.gradients.";

/// Adds them to a table; `contexts` is what they work on.
void add_functions(
    rpc::FunctionTable& functions, const std::shared_ptr<Contexts>& contexts);

/// Sends gradients of what a worker has sent back to it.
rpc::Future<Answer> send_gradients(
    const ContextState& context,
    const PassPlan& plan,
    rpc::WorkerId to,
    const SendId& send,
    autograd::variable_list gradients);

/// Marks what a pass has reached on other workers, and what that reaches in turn; ready
/// when all of it is marked.
rpc::Future<Answer> send_marks(
    const ContextState& context, const PassPlan& plan, const Pass::Marks& marks);

/// Tells a worker that a pass has failed, or that a context has ended; nobody waits for
/// it.
void tell_failed(
    rpc::AgentCore& core,
    rpc::WorkerId to,
    const ContextId& context,
    const PassId& pass,
    const PassFault& fault) noexcept;
void tell_ended(
    rpc::AgentCore& core, rpc::WorkerId to, const ContextId& context) noexcept;

/// Asks a worker what its part of a pass waits for: a line each. The workers that it
/// has called are in `peers`.
struct Waiting {
  std::vector<std::string> sends;
  std::vector<rpc::WorkerId> peers;
};
rpc::Future<Waiting> ask_waiting(
    const std::shared_ptr<rpc::AgentCore>& core,
    rpc::WorkerId worker,
    const ContextId& context,
    const PassId& pass);

}  // namespace trireme::dist_autograd

template <>
struct trireme::rpc::Fields<trireme::dist_autograd::Waiting> {
  using Waiting = dist_autograd::Waiting;
  static constexpr auto name = "trireme.Waiting";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&Waiting::sends, &Waiting::peers);
};
