#include "trireme/rpc/served_function.h"

#include <shared_mutex>

#include <ATen/ops/clone.h>
#include <ATen/ops/detach.h>

#include "trireme/core/error.h"
#include "trireme/rpc/call_context.h"

namespace trireme::rpc {

Answer::~Answer() {
  if (take_)
    end({},
        std::make_exception_ptr(Error(
            "[rpc] expected a function to end with a value or an error, got neither; "
            "look why it was dropped")));
}

void copy_live_tensors(Returned& returned) {
  if (!returned.kept.value)
    return;
  std::shared_lock<std::shared_mutex> unchanged;
  if (returned.kept.guard)
    unchanged = std::shared_lock(*returned.kept.guard);
  for (at::Tensor& tensor : returned.values.tensors)
    if (tensor.defined())
      tensor = tensor.detach().clone().set_requires_grad(tensor.requires_grad());
}

void resume_call(Task task) {
  const CallPointer call = share_this_call();
  const auto home = call ? call->home.lock() : nullptr;
  Task scoped = [call, task = std::move(task)]() mutable {
    const CallScope scope(call);
    task();
  };
  if (!home || call->resumer == nullptr || !call->resumer->try_run(std::move(scoped)))
    scoped();
}

void Answer::end(Returned returned, std::exception_ptr error) {
  TRIREME_ASSERT(take_);
  Take take = std::move(take_);
  take(std::move(returned), std::move(error));
}

}  // namespace trireme::rpc
