#include <algorithm>
#include <cstring>

#include "trireme/comm/reduce_kernel.h"
#include "trireme/comm/shared/algorithms.h"

namespace trireme::comm {
namespace {

/// A fold, and how it is cut into windows that fit into the staging.
struct Fold {
  explicit Fold(const Collective& its_call)
      : call(its_call),
        kernel(fold_kernel(call.op, call.dtype)),
        item(c10::elementSize(call.dtype)),
        partial(c10::elementSize(partial_dtype(call.dtype))) {}
  const Collective& call;
  FoldKernel kernel;
  size_t item, partial;

  /// Elements [at, at + count) of all sources, which begin there.
  void fold(size_t at, const std::byte* const* in, int sources, size_t count) const {
    FoldStep step = *call.fold;
    if (step.before != nullptr)
      step.before += at * partial;
    kernel(
        call.take[0].data + at * (step.ranks != 0 ? item : partial),
        step,
        in,
        sources,
        count);
  }
};

// The root reads the others' staging, and its own memory.
void fold_window(
    GroupSteps& steps, const Fold& f, size_t place, size_t at, size_t count) {
  if (steps.rank() != f.call.root)
    return;
  PerRank<const std::byte*> in(static_cast<size_t>(steps.size()));
  for (int k = 0; k < steps.size(); ++k)
    in[static_cast<size_t>(k)] =
        k == steps.rank() ? f.call.give[0].data + at * f.item : steps.staging(k, place);
  f.fold(at, in.data(), steps.size(), count);
}

size_t stage_window(GroupSteps& steps, const Fold& f, size_t at, size_t count) {
  const size_t place = steps.stage(count * f.item);
  if (steps.rank() != f.call.root)
    std::memcpy(
        steps.staging(steps.rank(), place),
        f.call.give[0].data + at * f.item,
        count * f.item);
  return place;
}

}  // namespace

void fold_alone(const Collective& call) {
  const std::byte* in[] = {call.give[0].data};
  Fold(call).fold(0, in, 1, static_cast<size_t>(call.count));
}

void run_fold(GroupSteps& steps, const Collective& call) {
  const Fold fold(call);
  const auto count = static_cast<size_t>(call.count);
  if (count * fold.item <= steps.half_bytes()) {
    const size_t place = stage_window(steps, fold, 0, count);
    steps.enter();
    return fold_window(steps, fold, place, 0, count);
  }
  steps.enter();
  const size_t window = steps.whole_half() / fold.item;
  for (size_t at = 0; at < count; at += window) {
    const size_t length = std::min(window, count - at);
    const size_t place = stage_window(steps, fold, at, length);
    steps.meet();
    fold_window(steps, fold, place, at, length);
  }
}

}  // namespace trireme::comm
