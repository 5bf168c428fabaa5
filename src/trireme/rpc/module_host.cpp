#include "trireme/rpc/module_host.h"

#include <mutex>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/core/parse_number.h"
#include "trireme/rpc/remote_module.h"

namespace trireme::rpc {

c10::Device read_device(const std::string& name) {
  try {
    return c10::Device(name);
  } catch (const c10::Error&) {
    throw InvalidArgument(text(
        "[rpc] expected a device such as cpu or cuda:0, got \"",
        name,
        "\"; write \"worker/device\""));
  }
}

WorkerId read_rank(const std::string& number) {
  if (const auto rank = parse_number<WorkerId>(number))
    return *rank;
  throw InvalidArgument(text(
      "[rpc] expected the number of a worker after \"rank:\", got \"",
      number,
      "\"; write \"rank:1/cpu\""));
}

ModuleHost::ModuleHost(
    std::shared_ptr<torch::nn::Module> module, const std::string& device)
    : module_(std::move(module)), device_(read_device(device)) {
  module_->to(device_);
}

std::vector<RemoteParameter> ModuleHost::parameters(bool recurse) {
  const std::shared_lock lock(mutex_);
  const ThisAgent agent = this_agent();
  std::vector<RemoteParameter> parameters;
  for (const auto& parameter : module_->named_parameters(recurse))
    parameters.push_back(
        {.name = parameter.key(), .value = agent.own(parameter.value())});
  return parameters;
}

void ModuleHost::train(bool on) {
  const std::lock_guard lock(mutex_);
  module_->train(on);
}

bool ModuleHost::is_training() {
  const std::shared_lock lock(mutex_);
  return module_->is_training();
}

std::map<std::string, at::Tensor> ModuleHost::tensors() {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& parameter : module_->named_parameters())
    tensors[parameter.key()] = parameter.value();
  for (const auto& buffer : module_->named_buffers())
    tensors[buffer.key()] = buffer.value();
  return tensors;
}

StateDict ModuleHost::state_dict() {
  const std::shared_lock lock(mutex_);
  const c10::NoGradGuard no_grad;
  StateDict state;
  for (const auto& [name, tensor] : tensors())
    state[name] =
        tensor.defined()
            ? tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true)
            : tensor;
  return state;
}

void ModuleHost::load_state_dict(const StateDict& state, bool strict) {
  const std::lock_guard lock(mutex_);
  const c10::NoGradGuard no_grad;
  auto own = tensors();
  std::vector<std::string> missing, foreign;
  for (const auto& [name, tensor] : own)
    if (state.count(name) == 0)
      missing.push_back(name);
  for (const auto& [name, tensor] : state) {
    const auto found = own.find(name);
    if (found == own.end()) {
      foreign.push_back(name);
    } else if (
        found->second.defined() != tensor.defined() ||
        (tensor.defined() && found->second.sizes() != tensor.sizes())) {
      throw InvalidArgument(text(
          "[rpc] expected a tensor of sizes ",
          found->second.defined() ? text(found->second.sizes()) : "none",
          " for ",
          name,
          ", got ",
          tensor.defined() ? text(tensor.sizes()) : "none",
          "; load the state of a module that is made alike"));
    }
  }
  if (strict && !(missing.empty() && foreign.empty()))
    throw InvalidArgument(text(
        "[rpc] expected a state with a tensor for each name of the module, got one "
        "without ",
        list_names(missing),
        " and with ",
        list_names(foreign),
        " beside; load it with strict = false if that is meant"));
  for (const auto& [name, tensor] : state)
    if (const auto found = own.find(name); found != own.end() && tensor.defined())
      found->second.copy_(tensor);
}

void ModuleHost::to(const std::string& device) {
  const c10::Device there = read_device(device);
  const std::lock_guard lock(mutex_);
  module_->to(there);
  device_ = there;
}

std::int64_t ModuleHost::add_hook(const std::string& name) {
  const std::lock_guard lock(mutex_);
  check_hook(name);
  hooks_[next_hook_] = name;
  return next_hook_++;
}

void ModuleHost::remove_hook(std::int64_t hook) {
  const std::lock_guard lock(mutex_);
  if (hooks_.erase(hook) == 0)
    throw InvalidArgument(text(
        "[rpc] expected the number of a hook that is on, got ",
        hook,
        "; take what add_hook() has returned, once"));
}

std::vector<std::string> ModuleHost::hooks() const {
  std::vector<std::string> names;
  for (const auto& [number, name] : hooks_)
    names.push_back(name);
  return names;
}

void add_module_functions(FunctionTable& functions) {
  if (functions.find("module.parameters") != nullptr)
    return;
  functions.method("module.parameters", &ModuleHost::parameters)
      .method("module.train", &ModuleHost::train)
      .method("module.is_training", &ModuleHost::is_training)
      .method("module.state_dict", &ModuleHost::state_dict)
      .method("module.load_state_dict", &ModuleHost::load_state_dict)
      .method("module.to", &ModuleHost::to)
      .method("module.add_hook", &ModuleHost::add_hook)
      .method("module.remove_hook", &ModuleHost::remove_hook);
}

}  // namespace trireme::rpc
