#include "trireme/comm/shared/reference_ports.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"

namespace trireme::comm {
namespace {

TEST(ReferencePortsRanks, HandOverTheSameMemory) {
  void* sent = nullptr;
  run_local(2, [&](const Group& world) {
    const Channel edge(world, {0, 1});
    if (world.rank() == 0) {
      const at::Tensor x = at::ones({100});
      sent = x.data_ptr();
      edge.send({.tensors = {x}});
      barrier(world);
    } else {
      const at::Tensor x = edge.receive().tensors[0];
      barrier(world);
      EXPECT_EQ(x.data_ptr(), sent);
    }
  });
}

TEST(ReferencePortsRanks, AWriteByTheReceiverIsCountedForTheSender) {
  run_local(1, [](const Group& world) {
    const Channel self(world, {0, 0});
    const at::Tensor x = at::ones({3});
    const auto version = x._version();
    self.send({.tensors = {x}});
    self.receive().tensors[0].add_(1);
    EXPECT_GT(x._version(), version);
    EXPECT_EQ(x[0].item<float>(), 2.0F);
  });
}

TEST(ReferencePortsRanks, CutTheGraph) {
  run_local(1, [](const Group& world) {
    const Channel self(world, {0, 0});
    const at::Tensor leaf = at::ones({3}).set_requires_grad(true);
    self.send({.tensors = {leaf.mul(2)}});
    const at::Tensor got = self.receive().tensors[0];
    EXPECT_TRUE(got.is_leaf());
    EXPECT_TRUE(got.requires_grad());
  });
}

TEST(ReferencePortsRanks, LetGoOfATensorOnceItIsReceivedAndDropped) {
  run_local(1, [](const Group& world) {
    const Channel self(world, {0, 0});
    at::Tensor x = at::ones({3});
    self.send({.tensors = {x}});
    EXPECT_GT(x.storage().use_count(), 1U);
    self.receive();
    EXPECT_EQ(x.storage().use_count(), 1U);
  });
}

// A leaf of an inference can be handed over in inference mode only.
TEST(ReferencePortsRanks, AMessageThatCannotBeSentLeavesNothingBehind) {
  run_local(1, [](const Group& world) {
    const Channel self(world, {0, 0}, {.capacity_messages = 2});
    at::Tensor cannot;
    {
      const c10::InferenceMode inference;
      cannot = at::ones({2}).set_requires_grad(true);
    }
    const at::Tensor x = at::ones({3});
    self.send({.header = {.word = 1}});
    for (int i = 0; i < 3; ++i)
      EXPECT_THROW(self.send({.tensors = {x, cannot}}), std::exception);
    EXPECT_EQ(x.storage().use_count(), 1U);
    self.send({.tensors = {x}, .header = {.word = 2}});
    EXPECT_EQ(self.receive().header.word, 1);
    const Message got = self.receive();
    EXPECT_EQ(got.header.word, 2);
    EXPECT_EQ(got.tensors.size(), 1U);
  });
}

}  // namespace
}  // namespace trireme::comm
