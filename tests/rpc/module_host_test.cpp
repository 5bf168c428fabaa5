#include "trireme/rpc/module_host.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include "trireme/rpc/remote_module.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using Host = ForwardHost<at::Tensor(at::Tensor)>;

Host norm_host() {
  auto norm = std::make_shared<torch::nn::BatchNorm1dImpl>(3);
  return Host(
      norm,
      "cpu",
      [norm](at::Tensor x) { return norm->forward(x); },
      std::make_shared<Host::Hooks>());
}

TEST(ModuleHost, StatesHaveParametersAndBuffers) {
  Host host = norm_host();
  const StateDict before = host.state_dict();
  EXPECT_EQ(before.count("weight"), 1u);
  EXPECT_EQ(before.count("running_mean"), 1u);
  host.forward(at::rand({8, 3}));
  EXPECT_TRUE(at::equal(before.at("running_mean"), at::zeros({3})))
      << "states are copies";
  EXPECT_FALSE(at::equal(host.state_dict().at("running_mean"), at::zeros({3})));
  host.load_state_dict(before, true);
  EXPECT_TRUE(at::equal(host.state_dict().at("running_mean"), at::zeros({3})));
}

TEST(ModuleHost, SaysWhatIsMissingAndWhatIsTooMuch) {
  Host host = norm_host();
  StateDict state = host.state_dict();
  state.erase("weight");
  state["other"] = at::ones({1});
  const std::string message =
      testing::message_of<InvalidArgument>([&] { host.load_state_dict(state, true); });
  EXPECT_TRUE(testing::contains(message, "without weight and with other beside"));
  StateDict wrong = host.state_dict();
  wrong["bias"] = at::ones({4});
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { host.load_state_dict(wrong, false); }),
      "sizes [3] for bias, got [4]"));
}

TEST(ModuleHost, DevicesAndRanksAreRead) {
  EXPECT_EQ(read_device("cpu"), c10::Device(c10::kCPU));
  EXPECT_EQ(read_device("cuda:1"), c10::Device(c10::kCUDA, 1));
  EXPECT_THROW(read_device("moon"), InvalidArgument);
  EXPECT_EQ(read_rank("12"), 12);
  EXPECT_THROW(read_rank("twelve"), InvalidArgument);
}

TEST(ModuleHost, ItsFunctionsAreInATableOnce) {
  FunctionTable functions;
  add_module_functions(functions);
  add_module_functions(functions);
  EXPECT_NE(functions.find("module.state_dict"), nullptr);
}

}  // namespace
}  // namespace trireme::rpc
