// Sequentials as lists of layers.
#include "trireme/pipe/sequential_layers.h"

#include <ATen/TensorOperators.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include "models.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

using testing::contains;
using testing::same;

struct TakesTwoImpl : torch::nn::Module {
  at::Tensor forward(at::Tensor a, at::Tensor b) { return a + b; }
};
TORCH_MODULE(TakesTwo);

struct TakesANumberImpl : torch::nn::Module {
  at::Tensor forward(double x) { return numbers({1}) * x; }
};
TORCH_MODULE(TakesANumber);

struct TakesAListImpl : torch::nn::Module {
  at::Tensor forward(Tensors in) { return in[0]; }
};
TORCH_MODULE(TakesAList);

std::string refused(const torch::nn::Sequential& model) {
  return testing::message_of<InvalidArgument>([&] { layers_of(model); });
}

TEST(SequentialLayers, AreItsChildren) {
  torch::nn::Sequential model(
      torch::nn::Linear(4, 8), torch::nn::GELU(), torch::nn::Linear(8, 2));
  const LayerList layers = layers_of(model);
  EXPECT_EQ(outline({layers}), "0 1 2");
  EXPECT_EQ(layers[0].module, model->ptr(0));
  const at::Tensor x = numbers({3, 4});
  EXPECT_TRUE(same(run_layers(layers, {x})[0], model->forward(x)));
}

TEST(SequentialLayers, KeepTheNamesOfTheModel) {
  torch::nn::Sequential model(
      {{"in", torch::nn::Linear(4, 8)},
       {"act", torch::nn::GELU()},
       {"out", torch::nn::Linear(8, 2)}});
  const NamedTensors ours = parameters(layers_of(model));
  const auto theirs = model->named_parameters();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].first, theirs[i].key());
    EXPECT_TRUE(ours[i].second.is_same(theirs[i].value()));
  }
  EXPECT_EQ(
      outline({layers_of(model, "encoder")}), "encoder.in encoder.act encoder.out");
}

TEST(SequentialLayers, ArgumentsWithDefaultsAreLeftToThem) {
  torch::nn::Sequential model(
      torch::nn::ConvTranspose1d(torch::nn::ConvTranspose1dOptions(2, 3, 2)));
  const at::Tensor x = numbers({1, 2, 5});
  EXPECT_TRUE(same(run_layers(layers_of(model), {x})[0], model->forward(x)));
}

TEST(SequentialLayers, RefuseModulesThatTakeSomethingElse) {
  const torch::nn::Sequential two(torch::nn::Linear(4, 4), TakesTwo());
  const std::string message = refused(two);
  EXPECT_TRUE(contains(
      message, "[pipe] layer \"1\": expected a module that takes one tensor, got "));
  EXPECT_TRUE(contains(message, "TakesTwoImpl"));
  EXPECT_TRUE(contains(message, "expects 2 argument(s)"));
  EXPECT_TRUE(contains(message, "make the layer with a function of Tensors instead"));
  EXPECT_TRUE(
      contains(refused(torch::nn::Sequential(TakesANumber())), "of type double"));
  EXPECT_TRUE(contains(refused(torch::nn::Sequential(TakesAList())), "std::vector"));
}

TEST(SequentialLayers, RefuseWhatIsReturnedUnlessItIsATensor) {
  const LayerList layers =
      layers_of(torch::nn::Sequential(torch::nn::GRU(torch::nn::GRUOptions(4, 4))));
  const std::string message = testing::message_of<InvalidArgument>([&] {
    run_layers(layers, {numbers({2, 1, 4})});
  });
  EXPECT_TRUE(contains(
      message, "[pipe] layer \"0\": expected a module that returns one tensor, got "));
  EXPECT_TRUE(contains(message, "std::tuple"));
}

TEST(SequentialLayers, RefuseASequentialWhoseNamesAreGone) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::GELU());
  model->unregister_module("0");
  EXPECT_TRUE(contains(refused(model), "a name for each of its 2 modules, got 1"));
}

}  // namespace
}  // namespace trireme::pipe
