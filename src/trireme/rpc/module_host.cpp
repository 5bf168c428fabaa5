#include "trireme/rpc/module_host.h"

#include <algorithm>
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
    std::shared_ptr<torch::nn::Module> module,
    const std::string& device,
    std::vector<std::string> roles)
    : module_(std::move(module)),
      roles_(std::move(roles)),
      device_(read_device(device)) {
  module_->to(device_);
}

void ModuleHost::expect_caller(const WorkerInfo& caller) const {
  if (roles_.empty() ||
      std::find(roles_.begin(), roles_.end(), caller.role) != roles_.end())
    return;
  throw InvalidArgument(text(
      "[rpc] expected a worker with role ",
      list_names(roles_),
      " to use this module, got worker ",
      caller.name,
      " with role ",
      caller.role,
      "; add the role where the module's factory is added to the table"));
}

std::vector<RemoteParameter> ModuleHost::parameters(bool recurse) {
  const std::shared_lock lock(mutex());
  const ThisAgent agent = this_agent();
  std::vector<RemoteParameter> parameters;
  for (const auto& parameter : module_->named_parameters(recurse))
    parameters.push_back(
        {.name = parameter.key(), .value = agent.own(parameter.value(), mutex_)});
  return parameters;
}

void ModuleHost::train(bool on) {
  const std::lock_guard lock(mutex());
  module_->train(on);
}

bool ModuleHost::is_training() {
  const std::shared_lock lock(mutex());
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
  const std::shared_lock lock(mutex());
  const c10::NoGradGuard no_grad;
  StateDict state;
  for (const auto& [name, tensor] : tensors())
    state[name] =
        tensor.defined()
            ? tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true)
            : tensor;
  return state;
}

namespace {

std::string sizes_of(const at::Tensor& tensor) {
  return tensor.defined() ? text(tensor.sizes()) : "none";
}

// What is given in the form of what the module has, so that no copy can fail.
at::Tensor in_form_of(
    const at::Tensor& own, const at::Tensor& given, const std::string& name) {
  if (own.defined() != given.defined() ||
      (given.defined() && own.sizes() != given.sizes()))
    throw InvalidArgument(text(
        "[rpc] expected a tensor of sizes ",
        sizes_of(own),
        " for ",
        name,
        ", got ",
        sizes_of(given),
        "; load the state of a module that is made alike"));
  if (!given.defined())
    return given;
  try {
    return (given.layout() == own.layout() ? given : given.to_dense())
        .to(own.options().requires_grad(false));
  } catch (const c10::Error& error) {
    throw InvalidArgument(text(
        "[rpc] expected a tensor for ",
        name,
        " that can be made one of ",
        own.scalar_type(),
        ", got ",
        error.what_without_backtrace(),
        "; load the state of a module that is made alike"));
  }
}

}  // namespace

void ModuleHost::load_state_dict(const StateDict& state, bool strict) {
  const std::lock_guard lock(mutex());
  const c10::NoGradGuard no_grad;
  auto own = tensors();
  std::vector<std::string> missing, foreign;
  for (const auto& [name, tensor] : own)
    if (state.count(name) == 0)
      missing.push_back(name);
  StateDict ready;
  for (const auto& [name, tensor] : state) {
    const auto found = own.find(name);
    if (found == own.end())
      foreign.push_back(name);
    else
      ready[name] = in_form_of(found->second, tensor, name);
  }
  if (strict && !(missing.empty() && foreign.empty()))
    throw InvalidArgument(text(
        "[rpc] expected a state with a tensor for each name of the module, got one "
        "without ",
        list_names(missing),
        " and with ",
        list_names(foreign),
        " beside; load it with strict = false if that is meant"));
  for (const auto& [name, tensor] : ready)
    if (tensor.defined())
      own.at(name).copy_(tensor);
}

void ModuleHost::to(const std::string& device) {
  const c10::Device there = read_device(device);
  const std::lock_guard lock(mutex());
  module_->to(there);
  device_ = there;
}

std::int64_t ModuleHost::add_hook(const std::string& name) {
  const std::lock_guard lock(mutex());
  check_hook(name);
  hooks_[next_hook_] = name;
  return next_hook_++;
}

void ModuleHost::remove_hook(std::int64_t hook) {
  const std::lock_guard lock(mutex());
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
