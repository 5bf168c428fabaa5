#include "trireme/rpc/module_host.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include "trireme/rpc/remote_module.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {

// A struct that travels.
struct RemoteParameterLike {
  at::Tensor tensor;
};
template <>
struct Fields<RemoteParameterLike> {
  static constexpr auto name = "RemoteParameterLike";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&RemoteParameterLike::tensor);
};

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

TEST(ModuleHost, AStateThatFitsOnlyInPartChangesNothing) {
  Host host = norm_host();
  const StateDict before = host.state_dict();
  StateDict state = before;
  state["bias"] = at::ones({3});
  state["weight"] = at::ones({3}).to_sparse();
  state["running_var"] = at::full({3}, 7, at::kDouble);
  host.load_state_dict(state, true);
  EXPECT_TRUE(at::equal(host.state_dict().at("bias"), at::ones({3})));
  EXPECT_TRUE(at::equal(host.state_dict().at("weight"), at::ones({3})));
  EXPECT_TRUE(at::equal(host.state_dict().at("running_var"), at::full({3}, 7.f)));
  host.load_state_dict(before, true);
  state["weight"] = at::empty({3}, at::device(at::kMeta));
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { host.load_state_dict(state, true); }),
      "expected a tensor for weight that can be made one of Float"));
  EXPECT_TRUE(at::equal(host.state_dict().at("bias"), before.at("bias")));
}

// With a device that keeps no values, since others may not be there.
TEST(ModuleHost, TensorsInsideOfValuesGoToItsDevice) {
  using Listed = std::vector<at::Tensor>;
  using Named = std::map<std::string, std::optional<at::Tensor>>;
  using Both = std::tuple<at::Tensor, std::pair<int, RemoteParameterLike>>;
  using Many = ForwardHost<int(Listed, Named, Both)>;
  int on_meta = 0;
  const auto look = [&](const at::Tensor& tensor) {
    on_meta += tensor.is_meta() ? 1 : 0;
  };
  Many host(
      std::make_shared<torch::nn::Module>(),
      "meta",
      [&](const Listed& listed, const Named& named, const Both& both) {
        for (const at::Tensor& tensor : listed)
          look(tensor);
        look(*named.at("a"));
        EXPECT_FALSE(named.at("b"));
        look(std::get<0>(both));
        look(std::get<1>(both).second.tensor);
        return 5;
      },
      std::make_shared<Many::Hooks>());
  const at::Tensor one = at::ones({1});
  EXPECT_EQ(
      host.forward({one, one}, {{"a", one}, {"b", std::nullopt}}, {one, {3, {one}}}),
      5);
  EXPECT_EQ(on_meta, 5);
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
