// A model as a list of layers with names, which can be cut into stages.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/pipe/stage_module.h"

// Named only: <torch/nn/module.h> costs 12 s of compile time, and who has a module to
// pass has included it.
namespace torch::nn {
class Module;
}

namespace trireme::pipe {

/// One layer. `module` holds what it trains and keeps; null if there is nothing. The
/// names of its tensors are "<layer>.<name in the module>": with the names of a whole
/// model's children as names of layers, those of the whole model.
struct Layer {
  std::string name;
  std::function<Tensors(const Tensors&)> forward;
  std::shared_ptr<torch::nn::Module> module;
  /// Outputs that later layers take, beside going to the next one: see saving().
  struct Saved {
    std::string name;
    size_t output = 0;
  };
  std::vector<Saved> saves{};
  /// What it takes of those, after the outputs of the layer before: see taking().
  std::vector<std::string> takes{};
};

/// The outputs of each layer are the inputs of the next.
///
///     const pipe::LayerList model{
///         pipe::layer("embed", torch::nn::Embedding(256, 64)),
///         pipe::layer("block0", Block(64)),
///         pipe::layer("gelu", [](const at::Tensor& x) { return at::gelu(x); }),
///         pipe::layer("head", torch::nn::Linear(64, 256))};
using LayerList = std::vector<Layer>;

using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;
using TensorsFunction = std::function<Tensors(const Tensors&)>;

/// torch::nn::Linear and the like.
template <class H>
concept ModuleHolder = requires(const H& holder) {
  typename H::ContainedType;
  holder.ptr();
};
/// A function of one tensor, or of a list of them. (A holder must not be asked whether
/// it can be called: that does not compile.)
template <class F>
concept FunctionOfTensor =
    !ModuleHolder<F> && std::is_invocable_r_v<at::Tensor, F&, const at::Tensor&>;
template <class F>
concept FunctionOfTensors =
    !ModuleHolder<F> && std::is_invocable_r_v<Tensors, F&, const Tensors&>;
/// A module whose forward is such a function.
template <class M>
concept TensorModule = requires(M& module, const at::Tensor& input) {
  { module.forward(input) } -> std::convertible_to<at::Tensor>;
};
template <class M>
concept TensorsModule = requires(M& module, const Tensors& inputs) {
  { module.forward(inputs) } -> std::convertible_to<Tensors>;
};

/// A layer of one tensor in and one out, which refuses more, or less, than one.
Layer one_tensor_layer(
    std::string name,
    TensorFunction forward,
    std::shared_ptr<torch::nn::Module> module);

/// A layer that calls `forward`; what it trains, if anything, is in `module`.
template <FunctionOfTensors F>
Layer layer(
    std::string name, F forward, std::shared_ptr<torch::nn::Module> module = nullptr) {
  return {std::move(name), std::move(forward), std::move(module)};
}
template <FunctionOfTensor F>
Layer layer(
    std::string name, F forward, std::shared_ptr<torch::nn::Module> module = nullptr) {
  return one_tensor_layer(std::move(name), std::move(forward), std::move(module));
}

/// A layer of a module: `layer("block0", std::make_shared<BlockImpl>(64))`. For a
/// forward of another form, pass a function that calls it, and the module.
template <TensorModule M>
Layer layer(std::string name, std::shared_ptr<M> module) {
  auto forward = [module](const at::Tensor& input) { return module->forward(input); };
  return one_tensor_layer(std::move(name), std::move(forward), std::move(module));
}
template <TensorsModule M>
Layer layer(std::string name, std::shared_ptr<M> module) {
  auto forward = [module](const Tensors& inputs) { return module->forward(inputs); };
  return {std::move(name), std::move(forward), std::move(module)};
}
/// The same for a holder: `layer("fc", torch::nn::Linear(4, 4))`.
template <ModuleHolder H>
Layer layer(std::string name, const H& holder) {
  return layer(std::move(name), holder.ptr());
}

/// Keeps an output of the layer for a layer further on, under a name. The output goes
/// to the next layer all the same. A model is wired once, and may then be cut anywhere:
/// what is saved in one stage and taken in another travels there by itself.
///
///     saving(layer("down0", Down(8)), "skip0"),
///     ...
///     taking(layer("up0", [up](const Tensors& in) -> Tensors {
///       return {up->forward(at::cat({in[0], in[1]}, 1))};
///     }, up.ptr()), {"skip0"})
Layer saving(Layer layer, std::string name, size_t output = 0);
/// Gives the layer what was saved under these names, in this order, after the outputs
/// of the layer before it.
Layer taking(Layer layer, std::vector<std::string> names);

/// InvalidArgument unless there is a layer, all have a function, and no two have one
/// name. A name may be empty if the layer is alone.
void check_layers(const LayerList& layers);

/// For the layers of a whole model: InvalidArgument unless every skip is saved once,
/// and by a layer before each that takes it, and is taken.
void check_skips(const LayerList& layers);

/// The names that these layers save, and those that they take and do not save
/// themselves; each once, in order.
std::vector<std::string> saved_skips(const LayerList& layers);
std::vector<std::string> taken_skips(const LayerList& layers);

/// What the layers train, and what they keep; each tensor once, under its first name.
NamedTensors parameters(const LayerList& layers);
NamedTensors buffers(const LayerList& layers);

/// The elements of all parameters of a layer.
int64_t count_parameters(const Layer& layer);

/// What has been saved by name. A layer that changes it in place afterwards is refused:
/// what the others take would depend on where the model is cut.
class NamedSkips {
 public:
  void save(const std::string& name, const at::Tensor& tensor);
  /// Null if there is none of that name.
  const at::Tensor* find(const std::string& name) const;

 private:
  struct Saved {
    at::Tensor tensor;
    uint32_t version = 0;
  };
  std::map<std::string, Saved> saved_;
};

/// One layer: takes from `skips`, and saves there.
Tensors run_layer(const Layer& layer, Tensors inputs, NamedSkips& skips);

/// Runs the layers of a whole model one after the other.
Tensors run_layers(const LayerList& layers, const Tensors& inputs);

}  // namespace trireme::pipe
