#include "trireme/dp/ready_hooks.h"

#include <algorithm>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

/// What torch's engine holds: where a pass fails, it only drops it.
class EngineEnding {
 public:
  EngineEnding(
      std::function<void()> ended, std::function<void(const std::string&)> failed)
      : ended_(std::move(ended)), failed_(std::move(failed)) {}
  ~EngineEnding() {
    if (!done_)
      failed_("");
  }
  EngineEnding(const EngineEnding&) = delete;
  EngineEnding& operator=(const EngineEnding&) = delete;

  void end() {
    ended_();
    done_ = true;
  }

 private:
  std::function<void()> ended_;
  std::function<void(const std::string&)> failed_;
  bool done_ = false;
};

}  // namespace

using autograd::Executor;

class ReadyHooks::Hook final : public torch::autograd::FunctionPostHook {
 public:
  Hook(std::shared_ptr<Link> link, size_t parameter)
      : link_(std::move(link)), parameter_(parameter) {}
  autograd::variable_list operator()(
      const autograd::variable_list& outputs,
      const autograd::variable_list& /*inputs*/) override {
    if (link_->listener != nullptr)
      link_->listener->ready(parameter_);
    return outputs;
  }

 private:
  std::shared_ptr<Link> link_;
  size_t parameter_;
};

ReadyHooks::ReadyHooks(
    const std::vector<Parameter>& parameters, ReadyListener& listener)
    : link_(std::make_shared<Link>(Link{&listener})) {
  for (const Parameter& parameter : parameters) {
    nodes_.push_back(torch::autograd::impl::grad_accumulator(parameter.tensor));
    for (const auto& hook : nodes_.back()->post_hooks())
      if (dynamic_cast<const Hook*>(hook.get()) != nullptr)
        throw InvalidArgument(text(
            "[dp] expected a model that is wrapped once, got ",
            parameter.name,
            " whose gradient is reduced already; wrap the whole model, or name what "
            "others reduce in ignore"));
  }
  for (size_t i = 0; i < nodes_.size(); ++i)
    keys_.push_back(nodes_[i]->add_post_hook(std::make_unique<Hook>(link_, i)));
}

void ReadyHooks::follow(const std::vector<Parameter>& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!is_current(i, parameters[i].tensor)) {
      nodes_[i] = torch::autograd::impl::grad_accumulator(parameters[i].tensor);
      keys_[i] = nodes_[i]->add_post_hook(std::make_unique<Hook>(link_, i));
    }
}

ReadyHooks::~ReadyHooks() {
  link_->listener = nullptr;
  for (size_t i = 0; i < nodes_.size(); ++i)
    nodes_[i]->del_post_hook(keys_[i]);
}

bool ReadyHooks::is_current(size_t parameter, const at::Tensor& tensor) const {
  return torch::autograd::impl::try_get_grad_accumulator(tensor) == nodes_[parameter];
}

bool ReadyHooks::in_pass() const {
  const auto* wanted = Executor::current() != nullptr
                           ? nullptr
                           : torch::autograd::get_current_graph_task_exec_info();
  if (wanted == nullptr || wanted->empty())
    return true;  // all leaves
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const autograd::NodePtr& node) {
    const auto found = wanted->find(node.get());
    return found != wanted->end() && found->second.needed_;
  });
}

autograd::GradientStore& store_of_pass() {
  Executor* executor = Executor::current();
  return executor != nullptr ? executor->store() : autograd::grad_field();
}

void at_end_of_pass(
    std::function<void()> ended, std::function<void(const std::string&)> failed) {
  if (Executor* executor = Executor::current())
    return executor->at_end(std::move(ended), std::move(failed));
  const auto ending =
      std::make_shared<EngineEnding>(std::move(ended), std::move(failed));
  torch::autograd::Engine::get_default_engine().queue_callback(
      [ending] { ending->end(); });
}

}  // namespace trireme::dp
