#include "trireme/pipe/sequential_layers.h"

#include "trireme/core/error.h"
#include "trireme/pipe/named_tensors.h"

namespace trireme::pipe {
namespace {

using torch::nn::AnyModule;
using torch::nn::AnyValue;

// A type that no module takes.
struct Probe {};

// What the module's forward takes is known to AnyModule alone, which checks it before
// it calls the module. So a call with something that fits no module is refused, and
// what it says is what would have fitted.
void check_takes_one_tensor(AnyModule& module, const std::string& name) {
  std::string complaint;
  try {
    module.any_forward(Probe{});
  } catch (const c10::Error& error) {
    complaint = error.what_without_backtrace();
  }
  if (complaint.find(" of type at::Tensor,") == std::string::npos)
    throw InvalidArgument(text(
        "[pipe] layer \"",
        name,
        "\": expected a module that takes one tensor, got ",
        c10::demangle(module.type_info().name()),
        " (",
        complaint,
        "); make the layer with a function of Tensors instead"));
}

at::Tensor take_tensor(AnyValue&& value, const std::string& name) {
  if (at::Tensor* tensor = value.try_get<at::Tensor>())
    return std::move(*tensor);
  throw InvalidArgument(text(
      "[pipe] layer \"",
      name,
      "\": expected a module that returns one tensor, got ",
      c10::demangle(value.type_info().name()),
      "; make the layer with a function of Tensors instead"));
}

}  // namespace

LayerList layers_of(const torch::nn::Sequential& model, const std::string& prefix) {
  const auto children = model->named_children();
  if (children.size() != model->size())
    throw InvalidArgument(text(
        "[pipe] expected a Sequential with a name for each of its ",
        model->size(),
        " modules, got ",
        children.size(),
        "; add and remove modules as its own"));
  LayerList layers;
  for (size_t i = 0; i < model->size(); ++i) {
    const std::string name = join_name(prefix, children[i].key());
    // A copy shares the module.
    AnyModule module = *(model->begin() + static_cast<std::ptrdiff_t>(i));
    check_takes_one_tensor(module, name);
    auto ptr = module.ptr();
    layers.push_back(layer(
        name,
        TensorFunction([module = std::move(module), name](const at::Tensor& x) mutable {
          return take_tensor(module.any_forward(x), name);
        }),
        std::move(ptr)));
  }
  return layers;
}

}  // namespace trireme::pipe
