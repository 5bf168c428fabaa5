#include "trireme/pipe/jit_stage.h"

#include <torch/csrc/jit/api/module.h>

#include "trireme/autograd/graph_ends.h"
#include "trireme/autograd/split_function.h"
#include "trireme/core/error.h"
#include "trireme/pipe/named_tensors.h"

namespace trireme::pipe {
namespace {

[[noreturn]] void refuse(const c10::IValue& value, const char* where) {
  throw InvalidArgument(text(
      "[pipe] expected a TorchScript module that returns a tensor, or a tuple or list "
      "of "
      "tensors, got ",
      value.type()->repr_str(),
      where,
      "; return the tensors alone from forward"));
}

at::Tensor to_tensor(const c10::IValue& value) {
  if (value.isNone())
    return {};
  if (!value.isTensor())
    refuse(value, " in the tuple");
  return value.toTensor();
}

Tensors to_tensors(const c10::IValue& value) {
  if (value.isTensor())
    return {value.toTensor()};
  if (value.isTensorList())
    return value.toTensorVector();
  if (!value.isTuple())
    refuse(value, "");
  Tensors tensors;
  for (const c10::IValue& element : value.toTupleRef().elements())
    tensors.push_back(to_tensor(element));
  return tensors;
}

/// Once TorchScript has compiled a piece, its backward is one node that computes all of
/// its gradients, whichever are asked for: to call it in I and again in W would only
/// double the work.
void keep_whole(const Tensors& outputs, const autograd::GraphMark& start) {
  autograd::for_each_node(outputs, start, [](autograd::Node& node) {
    if (node.name().find("DifferentiableGraphBackward") != std::string::npos)
      autograd::run_whole(node);
  });
}

class JitStage : public StageModule {
 public:
  JitStage(torch::jit::Module module, std::string prefix)
      : module_(std::move(module)), prefix_(std::move(prefix)) {}

  Tensors forward(const Tensors& inputs) override {
    std::vector<c10::IValue> values;
    for (const at::Tensor& input : inputs)
      values.push_back(input.defined() ? c10::IValue(input) : c10::IValue());
    const autograd::GraphMark start;
    Tensors outputs = to_tensors(module_.forward(std::move(values)));
    keep_whole(outputs, start);
    return outputs;
  }

  NamedTensors parameters() const override { return named(module_.named_parameters()); }
  NamedTensors buffers() const override { return named(module_.named_buffers()); }

  void train(bool on) override { module_.train(on); }
  bool is_training() const override { return module_.is_training(); }

  // A submodule that was frozen by hand must not thaw.
  std::function<void()> pause_training() override {
    std::vector<std::pair<torch::jit::Module, bool>> modes;
    for (const torch::jit::Module& module : module_.modules())
      if (module.hasattr("training"))
        modes.emplace_back(module, module.is_training());
    module_.train(false);
    return [modes]() mutable {
      // Each alone: train() would switch the children too.
      for (auto& [module, on] : modes)
        module.setattr("training", on);
    };
  }

 private:
  NamedTensors named(const auto& tensors) const {
    NamedTensors all;
    for (const auto& item : tensors)
      all.emplace_back(join_name(prefix_, item.name), item.value);
    return without_repeats(all);
  }

  torch::jit::Module module_;
  std::string prefix_;
};

}  // namespace

StagePtr make_jit_stage(const torch::jit::Module& module, const std::string& prefix) {
  return std::make_shared<JitStage>(module, prefix);
}

}  // namespace trireme::pipe
