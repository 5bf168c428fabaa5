#include "logging_hooks.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/core/error.h"

namespace trireme::autograd {
namespace {

using torch::autograd::impl::grad_accumulator;

void scale(variable_list& tensors, double factor) {
  for (at::Tensor& tensor : tensors)
    if (tensor.defined())
      tensor = tensor * factor;
}

}  // namespace

std::string digest(const variable_list& tensors) {
  std::string letters;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      letters += " -";
      continue;
    }
    const at::Tensor dense =
        (tensor.is_sparse() ? tensor.to_dense() : tensor).contiguous();
    const std::string_view bytes(
        static_cast<const char*>(dense.data_ptr()), dense.nbytes());
    letters += text(' ', std::hash<std::string_view>()(bytes));
  }
  return letters;
}

variable_list LoggingPreHook::operator()(const variable_list& gradients) {
  log.push_back(name + digest(gradients));
  variable_list changed = gradients;
  scale(changed, 1.5);
  return changed;
}

variable_list LoggingPostHook::operator()(
    const variable_list& outputs, const variable_list& inputs) {
  log.push_back(name + digest(inputs) + " to" + digest(outputs));
  variable_list changed = outputs;
  scale(changed, 0.5);
  return changed;
}

void LoggingAccumulateHook::operator()(const at::Tensor& leaf) {
  log.push_back(name + digest({leaf.grad()}));
}

std::string HookLog::next_name(const char* kind) {
  return text(kind, ' ', count_++);
}

void HookLog::add_to_tensor(
    uint32_t kind, const at::Tensor& tensor, variable_list& retained) {
  if (log_ == nullptr)
    return;
  const auto hook = [this](const char* what, double factor) {
    return [&log = *log_, name = next_name(what), factor](const at::Tensor& gradient) {
      log.push_back(name + digest({gradient}));
      return gradient.defined() ? gradient * factor : gradient;
    };
  };
  if (kind == 0 || kind == 5)
    tensor.register_hook(hook("tensor", 2));
  if (kind == 0)
    tensor.register_hook(hook("tensor again", -1));
  if ((kind == 1 || kind == 5) && !tensor.is_leaf()) {
    tensor.retain_grad();
    retained.push_back(tensor);
  }
  if ((kind == 2 || kind == 5) && tensor.grad_fn())
    tensor.grad_fn()->add_pre_hook(
        std::make_unique<LoggingPreHook>(*log_, next_name("pre")));
  if ((kind == 3 || kind == 4) && tensor.grad_fn())
    tensor.grad_fn()->add_post_hook(
        std::make_unique<LoggingPostHook>(*log_, next_name("post")));
  if (kind == 4)
    tensor.register_hook(hook("tensor", 0.5));
}

void HookLog::add_to_leaf(
    uint32_t kind, const at::Tensor& leaf, std::vector<NodePtr>& held) {
  if (log_ == nullptr)
    return;
  held.push_back(grad_accumulator(leaf));
  if (kind == 0 || kind == 4)
    leaf.register_hook(
        [&log = *log_, name = next_name("leaf")](const at::Tensor& gradient) {
          log.push_back(name + digest({gradient}));
          return gradient.defined() ? gradient * 3 : gradient;
        });
  if (kind == 1 || kind == 4)
    held.back()->add_pre_hook(
        std::make_unique<LoggingPreHook>(*log_, next_name("leaf pre")));
  if (kind == 2 || kind == 4)
    held.back()->add_post_hook(
        std::make_unique<LoggingPostHook>(*log_, next_name("leaf post")));
  if (kind == 3 || kind == 4)
    torch::autograd::impl::set_post_acc_grad_hooks(
        leaf, std::make_unique<LoggingAccumulateHook>(*log_, next_name("accumulated")));
}

}  // namespace trireme::autograd
