// A stage of a TorchScript module.
#pragma once
#include <string>

#include "trireme/pipe/stage_module.h"

// Named only: <torch/script.h> costs 13 s of compile time.
namespace torch::jit {
struct Module;
}

namespace trireme::pipe {

/// A stage that calls the module's forward with its inputs, an undefined tensor as
/// None. It must return a tensor, or a tuple or list of tensors, in which None stands
/// for an undefined one; anything else is InvalidArgument. The module is shared, not
/// copied. The backward of what TorchScript has compiled is one node, which is not
/// split: under schedules with I and W, I does all of its work, and a line in the log
/// says so once.
///
///     auto stage = make_jit_stage(torch::jit::load("stage1.pt"));
StagePtr make_jit_stage(
    const torch::jit::Module& module, const std::string& prefix = {});

}  // namespace trireme::pipe
