#include "trireme/pipe/module_stage.h"

#include <set>

#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include "trireme/core/error.h"

namespace trireme::pipe {
namespace {

class LayerStage : public StageModule {
 public:
  explicit LayerStage(LayerList layers)
      : layers_(std::move(layers)),
        saved_(pipe::saved_skips(layers_)),
        taken_(pipe::taken_skips(layers_)) {
    check_layers(layers_);
  }

  // What it takes by name comes last, and so does what it saves.
  Tensors forward(const Tensors& inputs) override {
    if (inputs.size() < taken_.size())
      throw InvalidArgument(text(
          "[pipe] expected ",
          taken_.size(),
          " tensors that other stages save, got ",
          inputs.size(),
          " inputs in all; run the stage in a pipeline"));
    const auto plain = inputs.end() - static_cast<std::ptrdiff_t>(taken_.size());
    NamedSkips skips;
    for (size_t i = 0; i < taken_.size(); ++i)
      skips.save(taken_[i], plain[static_cast<std::ptrdiff_t>(i)]);
    Tensors tensors(inputs.begin(), plain);
    for (const Layer& each : layers_)
      tensors = run_layer(each, std::move(tensors), skips);
    for (const std::string& name : saved_)
      tensors.push_back(*skips.find(name));
    return tensors;
  }
  std::vector<std::string> saved_skips() const override { return saved_; }
  std::vector<std::string> taken_skips() const override { return taken_; }
  NamedTensors parameters() const override { return pipe::parameters(layers_); }
  NamedTensors buffers() const override { return pipe::buffers(layers_); }

  void train(bool on) override {
    StageModule::train(on);
    for (const Layer& each : layers_)
      if (each.module)
        each.module->train(on);
  }

  // A BatchNorm that was frozen by hand must not thaw.
  std::function<void()> pause_training() override {
    std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes;
    for (const Layer& each : layers_)
      if (each.module)
        for (const auto& module : each.module->modules())
          modes.emplace_back(module, module->is_training());
    const std::function<void()> outer = StageModule::pause_training();
    return [outer, modes] {
      outer();
      for (const auto& [module, on] : modes)  // parents come before their children
        module->train(on);
    };
  }

  // Whoever has the modules may have switched them without asking the stage.
  bool is_training() const override {
    bool modules = false;
    for (const Layer& each : layers_) {
      if (each.module && each.module->is_training())
        return true;
      modules = modules || each.module;
    }
    return !modules && StageModule::is_training();
  }

 private:
  LayerList layers_;
  std::vector<std::string> saved_;
  std::vector<std::string> taken_;
};

class FunctionStage : public StageModule {
 public:
  FunctionStage(TensorsFunction forward, NamedTensors parameters, NamedTensors buffers)
      : forward_(std::move(forward)),
        parameters_(std::move(parameters)),
        buffers_(std::move(buffers)) {
    if (!forward_)
      throw InvalidArgument(
          "[pipe] expected a function for a stage, got none; give one");
    std::set<std::string> names;
    for (const NamedTensors* tensors : {&parameters_, &buffers_})
      for (const auto& [name, tensor] : *tensors)
        check(name, tensor, names);
  }

  Tensors forward(const Tensors& inputs) override { return forward_(inputs); }
  NamedTensors parameters() const override { return parameters_; }
  NamedTensors buffers() const override { return buffers_; }

 private:
  static void check(
      const std::string& name, const at::Tensor& tensor, std::set<std::string>& names) {
    if (name.empty() || !names.insert(name).second)
      throw InvalidArgument(text(
          "[pipe] expected tensors of a stage with names of their own, got \"",
          name,
          name.empty() ? "\"" : "\" twice",
          "; rename it"));
    if (!tensor.defined())
      throw InvalidArgument(text(
          "[pipe] expected a tensor \"",
          name,
          "\" of a stage, got an undefined one; make it, or leave it out"));
    if (!tensor.is_leaf())
      throw InvalidArgument(text(
          "[pipe] expected a leaf for \"",
          name,
          "\", got the result of ",
          tensor.grad_fn()->name(),
          ", whose gradient would be lost; pass tensor.detach().requires_grad_()"));
  }

  TensorsFunction forward_;
  NamedTensors parameters_;
  NamedTensors buffers_;
};

}  // namespace

StagePtr make_stage(LayerList layers) {
  return std::make_shared<LayerStage>(std::move(layers));
}

StagePtr make_function_stage(
    TensorsFunction forward, NamedTensors parameters, NamedTensors buffers) {
  return std::make_shared<FunctionStage>(
      std::move(forward), std::move(parameters), std::move(buffers));
}

}  // namespace trireme::pipe
