// Ranks as threads: what they share.
#include "trireme/comm/local/local_world.h"

#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../scopes.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/flight_file.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::LogScope;
using testing::message_of;
using testing::same;
using testing::ScratchFolder;
using testing::VariableScope;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(5));
}

TEST(LocalWorld, RefusesAWrongNumberOfRanks) {
  for (const int size : {0, -1, 4097})
    EXPECT_EQ(
        message_of<InvalidArgument>([&] { LocalWorld world(size); }),
        text(
            "[comm] expected 1 to 4096 ranks as threads, got ",
            size,
            "; take another number"));
}

TEST(LocalWorld, RefusesARankOutside) {
  const LocalWorld world(1);
  for (const int rank : {-1, 1})
    EXPECT_EQ(
        message_of<InvalidArgument>([&] { world.join(rank, soon()); }),
        text("[comm] expected a rank from 0 to 0, got ", rank, "; give one of these"));
}

TEST(LocalWorld, MayGoBeforeItsEngines) {
  const Group group(LocalWorld(1).join(0, soon()));
  EXPECT_EQ(group.backend(), "none");
  at::Tensor x = at::ones({5});
  all_reduce(group, x);
  EXPECT_TRUE(same(x, at::ones({5})));
}

TEST(LocalWorldRanks, NameTheOneThatDoesNotCome) {
  const LocalWorld world(2);
  const std::string what = message_of<TimeoutError>(
      [&] { world.join(0, Deadline::after(std::chrono::milliseconds(30))); });
  EXPECT_TRUE(contains(what, "rank 1"));
  EXPECT_TRUE(contains(what, "30 ms"));
}

TEST(LocalWorldRanks, AreManyWorldsAtOnce) {
  run_local(2, [](const Group& outer) {
    run_local(2, [&outer](const Group& inner) {
      at::Tensor x = at::full({1}, outer.rank() * 10 + inner.rank());
      all_reduce(inner, x);
      EXPECT_EQ(x.item<int>(), outer.rank() * 20 + 1);
    });
    barrier(outer);
  });
}

TEST(LocalWorldRanks, ReadTheMemoryOfOneAnother) {
  run_local(3, [](const Group& world) {
    at::Tensor mine = world.allocate({100}, at::kInt);
    mine.fill_(world.rank() + 1);
    at::Tensor addresses = at::zeros({3}, at::kLong);
    all_gather(
        world,
        addresses,
        at::full({1}, reinterpret_cast<int64_t>(mine.data_ptr()), at::kLong));
    for (int k = 0; k < 3; ++k) {
      const auto* values = reinterpret_cast<const int*>(addresses[k].item<int64_t>());
      for (int i = 0; i < 100; ++i)
        ASSERT_EQ(values[i], k + 1);
    }
    barrier(world);
  });
}

TEST(LocalWorldRanks, ReceiveTheTensorThatWasSent) {
  at::Tensor sent = at::arange(10), strided = at::arange(6).reshape({2, 3}).t();
  run_local(2, [&](const Group& world) {
    const Channel edge(world, {0, 1});
    if (world.rank() == 0) {
      edge.send({.tensors = {sent, strided}});
    } else {
      const Message got = edge.receive();
      EXPECT_EQ(got.tensors[0].data_ptr(), sent.data_ptr());
      EXPECT_TRUE(got.tensors[0].is_alias_of(sent));
      EXPECT_EQ(got.tensors[1].data_ptr(), strided.data_ptr());
      EXPECT_EQ(got.tensors[1].strides(), strided.strides());
      // Autograd must see what either side writes.
      const auto before = got.tensors[0]._version();
      sent.add_(1);
      EXPECT_EQ(got.tensors[0]._version(), before + 1);
      got.tensors[0].add_(1);
      EXPECT_EQ(sent._version(), before + 2);
      EXPECT_TRUE(same(sent, at::arange(10).add(2)));
    }
    barrier(world);
  });
}

TEST(LocalWorldRanks, KeepTheSendersGraphApart) {
  const at::Tensor leaf = at::ones({3}).set_requires_grad(true);
  const at::Tensor output = leaf.mul(2);
  run_local(2, [&](const Group& world) {
    const Channel edge(world, {0, 1});
    if (world.rank() == 0) {
      edge.send({.tensors = {output, output.detach()}});
    } else {
      const Message got = edge.receive();
      EXPECT_TRUE(got.tensors[0].is_leaf() && got.tensors[0].requires_grad());
      EXPECT_EQ(got.tensors[0].grad_fn(), nullptr);
      EXPECT_FALSE(got.tensors[1].requires_grad());
      got.tensors[0].mul(3).sum().backward();
      EXPECT_TRUE(same(got.tensors[0].grad(), at::full({3}, 3.0F)));
    }
    barrier(world);
  });
  EXPECT_FALSE(output.is_leaf());
  EXPECT_FALSE(leaf.grad().defined());
}

TEST(LocalWorldRanks, LetGoOfASentTensorOnceItWasReceived) {
  run_local(2, [](const Group& world) {
    const Channel edge(world, {0, 1});
    if (world.rank() == 1) {
      edge.receive();
      barrier(world);
      return;
    }
    at::Tensor sent = at::ones({4});
    edge.send({.tensors = {sent}});
    barrier(world);
    EXPECT_EQ(sent.storage().use_count(), 1U);
  });
}

// ---- flight records
// --------------------------------------------------------------------

void fail_together() {
  EXPECT_THROW(
      run_local(
          2,
          [](const Group& world) {
            at::Tensor x = at::ones({3});
            all_reduce(world, x);
            if (world.rank() == 1)
              throw std::out_of_range("overboard");
            barrier(world);
          }),
      std::out_of_range);
}

TEST(LocalWorldRanks, LeaveARecordWhereAskedTo) {
  const LogScope log;
  const ScratchFolder folder;
  const VariableScope variable("TRIREME_FLIGHT_DIR", folder.path().string());
  fail_together();
  const auto records = load_flight(folder.path());
  ASSERT_EQ(records.size(), 2U);
  for (const FlightFile& record : records) {
    EXPECT_EQ(record.size, 2);
    EXPECT_EQ(record.reason, "[comm] rank 1 failed: overboard");
    ASSERT_FALSE(record.calls.empty());
    EXPECT_EQ(record.calls[0].call, "all_reduce sum float32[3]");
    EXPECT_EQ(record.calls[0].state, FlightState::Done);
  }
}

TEST(LocalWorldRanks, LeaveNoRecordUnasked) {
  const LogScope log;
  const ScratchFolder temporary;
  const VariableScope folder("TRIREME_FLIGHT_DIR", std::nullopt);
  const VariableScope variable("TMPDIR", temporary.path().string());
  fail_together();
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path()));
  EXPECT_TRUE(log.lines().empty());
}

}  // namespace
}  // namespace trireme::comm
