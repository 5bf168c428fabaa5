// Hooks that send gradients as they are, in half the bits, or not at all.
#pragma once
#include <memory>

#include "trireme/dp/comm_hook.h"

namespace trireme::dp {

/// Reduces gradients as if there were no hook: a place to begin, and to compare with.
///
///     dp::DataParallel model(net, group, {.hooks = {dp::make_allreduce_hook()}});
std::shared_ptr<CommHook> make_allreduce_hook();

/// Sends float16 in place of wider numbers: half the bytes of float32. The ranks'
/// values are added up in float32 and rounded once, so that a mean overflows only if a
/// rank's own value does (65504); a sum, or a mean by weight, can, and bfloat16 is
/// safer then.
///
/// It only replaces the buffer for the hooks after it, so it goes together with them:
///
///     {.hooks = {dp::make_fp16_hook(), dp::make_power_sgd_hook()}}
std::shared_ptr<CommHook> make_fp16_hook();

/// The same with bfloat16: the range of float32, but 8 bits of precision in place
/// of 11.
std::shared_ptr<CommHook> make_bf16_hook();

/// Sends nothing: every rank keeps its own gradients. Shows what communication costs.
std::shared_ptr<CommHook> make_noop_hook();

}  // namespace trireme::dp
