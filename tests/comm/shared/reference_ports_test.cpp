#include "trireme/comm/shared/reference_ports.h"

#include <ATen/ATen.h>
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

}  // namespace
}  // namespace trireme::comm
