// Channels over MPI, where they differ from others: tags, credit, threads, progress.
#include "trireme/comm/mpi/mpi_ports.h"

#include <atomic>
#include <climits>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;
using testing::mpi_world;

/// A sign between two ranks of this host that does not go through MPI: a file.
class Sign {
 public:
  explicit Sign(int round)
      : path_(
            std::filesystem::temp_directory_path() /
            text("trireme-mpi-test-", ::getppid(), "-", round)) {}
  ~Sign() { std::filesystem::remove(path_); }
  void give() const { std::ofstream(path_) << "here"; }
  bool is_given() const { return std::filesystem::exists(path_); }

 private:
  std::filesystem::path path_;  // mpirun is the parent of both
};

TEST(MpiPortsProcs, RefuseTagsThatMpiCannotHave) {
  const int me = mpi_world().rank();
  for (const int tag : {-1, INT_MAX})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] {
          Channel(mpi_world(), {me, me, tag});
        }),
        text("on the backend \"mpi\", got ", tag)));
  const int highest = highest_channel(testing::mpi_runtime().highest_tag());
  const Channel self(mpi_world(), {me, me, highest});
  self.send({.header = {.word = 4}});
  EXPECT_EQ(self.receive().header.word, 4);
}

TEST(MpiPortsProcs, RefuseASecondEnd) {
  const int me = mpi_world().rank();
  const Channel self(mpi_world(), {me, me, 8});
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] {
        Channel(mpi_world(), {me, me, 8});
      }),
      "to be opened once, but it is open"));
}

// MPI moves a large message only while somebody calls it at both ends: here the
// progress thread does, at the sender, which makes no call before the message is there.
TEST(MpiPortsProcs, ALargeMessagePassesWhileItsSenderComputes) {
  const Group& world = mpi_world();
  for (int round = 0; round < 3 && world.size() > 1; ++round) {
    const Sign received(round);
    barrier(world);
    if (world.rank() == 0) {
      const Channel out(world, {0, 1, 20});
      out.send({.tensors = {at::full({8 << 20}, 7 + round, at::kFloat)}});  // 32 MiB
      const Deadline deadline = Deadline::after(std::chrono::seconds(20));
      while (!received.is_given() && !deadline.expired())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_TRUE(received.is_given());
    } else if (world.rank() == 1) {
      const Channel in(world, {0, 1, 20});
      EXPECT_EQ(in.receive().tensors[0][-1].item<float>(), 7.0F + round);
      received.give();
    }
    barrier(world);
  }
}

TEST(MpiPortsProcs, TryingDoesNotWaitForAnotherThread) {
  const Group& world = mpi_world();
  const int me = world.rank();
  const Channel self(world, {me, me, 30}, {.capacity_messages = 1});
  std::atomic<bool> ended{false};
  std::thread receiver([&] {
    EXPECT_NO_THROW(EXPECT_EQ(self.receive(std::chrono::seconds(5)).header.word, 1));
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(self.try_receive().has_value());
  EXPECT_FALSE(ended);
  self.send({.header = {.word = 1}});
  receiver.join();

  self.send({.header = {.word = 2}});
  ended = false;
  std::thread sender([&] {
    EXPECT_NO_THROW(self.send({.header = {.word = 3}}, std::chrono::seconds(5)));
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(self.try_send({.header = {.word = 4}}));
  EXPECT_THROW(self.send({}, std::chrono::milliseconds(20)), TimeoutError);
  EXPECT_FALSE(ended);
  EXPECT_EQ(self.receive().header.word, 2);
  sender.join();
  EXPECT_EQ(self.receive().header.word, 3);
  barrier(world);
}

TEST(MpiPortsProcs, MessagesKeepTheirStrides) {
  const Group& world = mpi_world();
  const int me = world.rank();
  const Channel self(world, {me, me, 31});
  const at::Tensor image = at::arange(120, at::kFloat).reshape({2, 3, 4, 5});
  for (const at::Tensor& sent :
       {image.contiguous(at::MemoryFormat::ChannelsLast),
        image.permute({3, 1, 0, 2})}) {
    self.send({.tensors = {sent}});
    const at::Tensor got = self.receive().tensors.at(0);
    EXPECT_EQ(got.strides(), sent.strides());
    EXPECT_TRUE(testing::same(got, sent));
  }
  barrier(world);
}

// Two threads a rank, each with channels of its own in both directions, all at once.
TEST(MpiPortsProcs, ThreadsSendAtTheSameTime) {
  const Group& world = mpi_world();
  constexpr int kTags = 6, kMessages = 60;
  const int n = world.size();
  const int next = (world.rank() + 1) % n, before = (world.rank() + n - 1) % n;
  std::atomic<int> wrong{0};
  const auto work = [&](int thread) {
    std::vector<Channel> out, in;
    for (int tag = 0; tag < kTags; ++tag) {
      const int number = 100 + thread * kTags + tag;
      out.emplace_back(
          world,
          Edge{world.rank(), next, number},
          ChannelOptions{.capacity_messages = 2});
      in.push_back(
          n == 1 ? out.back() : Channel(world, {before, world.rank(), number}));
    }
    for (int i = 0; i < kMessages; ++i) {
      std::vector<Sending> sends;
      for (int tag = 0; tag < kTags; ++tag)
        sends.push_back(
            {out[static_cast<size_t>(tag)],
             {.tensors = {at::full({i % 7 == 0 ? 100000 : 50}, i)},
              .header = {.word = thread * 1000000 + tag * 1000 + i}}});
      const auto got = comm::exchange(sends, in);
      for (int tag = 0; tag < kTags; ++tag) {
        const Message& message = got[static_cast<size_t>(tag)];
        if (message.header.word != thread * 1000000 + tag * 1000 + i ||
            message.tensors[0][-1].item<int64_t>() != i)
          ++wrong;
      }
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(wrong, 0);
  barrier(world);
}

// Credit that comes after the sender has closed its end must not be lost, nor counted
// twice: the channel would fill up, or overflow.
TEST(MpiPortsProcs, CreditSurvivesClosing) {
  const Group& world = mpi_world();
  const int me = world.rank();
  for (int round = 0; round < 20; ++round) {
    const Channel self(world, {me, me, 30}, {.capacity_messages = 2});
    EXPECT_TRUE(self.try_send({.header = {.word = round}})) << "round " << round;
    EXPECT_TRUE(self.try_send({.header = {.word = round}})) << "round " << round;
    EXPECT_FALSE(self.try_send({}));
    EXPECT_EQ(self.receive().header.word, round);
    EXPECT_EQ(self.receive().header.word, round);
  }
}

// A receiver that gives up in the middle of a message gets it the next time.
TEST(MpiPortsProcs, AMessageIsNotLostWhenItsReceiverGivesUp) {
  const Group& world = mpi_world();
  if (world.size() < 2)
    return;
  if (world.rank() == 0) {
    const Channel out(world, {0, 1, 31});
    out.send({.tensors = {at::full({4 << 20}, 3, at::kFloat)}});
    barrier(world);
    return;
  }
  if (world.rank() == 1) {
    int tries = 0;
    for (bool got = false; !got; ++tries) {
      const Channel in(world, {0, 1, 31});  // a new end each time
      if (const auto message = in.try_receive()) {
        EXPECT_EQ(message->tensors[0].sum().item<float>(), 3.0F * (4 << 20));
        got = true;
      }
      ASSERT_LT(tries, 10000000);
    }
  }
  barrier(world);
}

// Many more messages than the channel holds, all of them large.
TEST(MpiPortsProcs, AFullChannelMakesTheSenderWait) {
  const Group& world = mpi_world();
  if (world.size() < 2 || world.rank() > 1) {
    barrier(world);
    return;
  }
  const Channel edge(world, {0, 1, 32}, {.capacity_bytes = 3 << 20});
  for (int i = 0; i < 40; ++i) {
    if (world.rank() == 0)
      edge.send({.tensors = {at::full({1 << 18}, i, at::kFloat)}});  // 1 MiB
    else
      EXPECT_EQ(edge.receive().tensors[0][77].item<float>(), static_cast<float>(i));
  }
  barrier(world);
}

}  // namespace
}  // namespace trireme::comm
