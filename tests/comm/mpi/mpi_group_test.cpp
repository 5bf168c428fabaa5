// The first step of every call, and the transfers that calls are made of.
#include "trireme/comm/mpi/mpi_group.h"

#include <cstring>

#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

using std::chrono::seconds;
using testing::contains;
using testing::message_of;

// A group of all ranks on a communicator of its own.
class MpiGroupProcs : public ::testing::Test {
 protected:
  explicit MpiGroupProcs(const MpiTuning& tuning = {}) {
    MpiRuntime& runtime = testing::mpi_runtime();
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    group_ = std::make_unique<MpiGroup>(
        std::make_shared<MpiWorld>(
            runtime,
            MpiSetup{
                .local_ranks = runtime.size(), .flight_folder = "", .tuning = tuning}),
        comm);
  }
  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  void begin(int64_t count) {
    group_->begin({.kind = CollectiveKind::AllGather, .count = count}, deadline_);
  }
  // Everybody makes the same call but the last rank; all get the same words for it.
  void expect_mismatch() {
    begin(rank() == size() - 1 ? 8 : 7);
    if (size() == 1)
      return group_->enter();
    const std::string what = message_of<InvalidArgument>([&] { group_->enter(); });
    EXPECT_TRUE(
        contains(what, text("rank ", size() - 1, " called all_gather uint8[8]")));
    EXPECT_TRUE(contains(what, "called all_gather uint8[7]"));
    begin(9);
    group_->enter();  // still in step
  }

  Deadline deadline_ = Deadline::after(seconds(60));
  std::unique_ptr<MpiGroup> group_;
};

class MpiTreeGroupProcs : public MpiGroupProcs {
 protected:
  MpiTreeGroupProcs() : MpiGroupProcs({.direct_ranks = 0}) {}
};

TEST_F(MpiGroupProcs, CarriesAPayload) {
  ASSERT_TRUE(group_->carries_payload());
  for (int round = 0; round < 5; ++round) {
    std::vector<std::byte> mine(MpiGroup::kPayload, std::byte(rank() + round));
    begin(round);
    group_->enter(mine);
    for (int k = 0; k < size(); ++k) {
      EXPECT_EQ(group_->payload(k)[0], std::byte(k + round));
      EXPECT_EQ(group_->payload(k)[MpiGroup::kPayload - 1], std::byte(k + round));
    }
  }
}

TEST_F(MpiGroupProcs, FindsDifferentCalls) {
  expect_mismatch();
}

TEST_F(MpiTreeGroupProcs, FindsDifferentCalls) {
  EXPECT_FALSE(group_->carries_payload());
  expect_mismatch();
}

TEST_F(MpiTreeGroupProcs, KeepsEveryFaultCaseThatIsNoFailure) {
  const Group world = testing::tuned_world({.direct_ranks = 0});
  for (const auto& one : testing::fault_cases())
    if (!one.failure) {
      SCOPED_TRACE(one.name);
      one.body(world);
    }
}

TEST_F(MpiGroupProcs, TransfersOfTwoRanksKeepTheirOrder) {
  const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
  std::vector<int64_t> out(50), in(50, -1);
  begin(0);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = rank() * 1000 + static_cast<int64_t>(i);
    group_->receive(before, reinterpret_cast<std::byte*>(&in[i]), sizeof in[i]);
    group_->send(next, reinterpret_cast<const std::byte*>(&out[i]), sizeof out[i]);
    group_->receive(before, nullptr, 0);  // nothing
    group_->send(next, nullptr, 0);
  }
  group_->finish();
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], before * 1000 + static_cast<int64_t>(i));
}

}  // namespace
}  // namespace trireme::comm
