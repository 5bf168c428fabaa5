// The second half of a step that all owners have prepared.
#pragma once
#include <memory>
#include <vector>

#include "trireme/dist_autograd/optimizer_desk.h"
#include "trireme/rpc/future.h"

namespace trireme::dist_autograd {

/// What the driver of a prepared step says to the owners.
struct StepWord {
  std::shared_ptr<rpc::AgentCore> core;
  StepId step;
  std::vector<rpc::WorkerId> owners;
};

/// Nobody steps; nobody waits for it.
void tell_given_up(const StepWord& word) noexcept;

/// All step at once, each for itself.
rpc::Future<void> commit_each(const StepWord& word, const StepOrder& order);

/// All or none: the first owner decides, and what comes of the others follows from its
/// answer, whether or not anybody still waits for that.
rpc::Future<void> commit_all_or_none(const StepWord& word, const StepOrder& order);

}  // namespace trireme::dist_autograd
