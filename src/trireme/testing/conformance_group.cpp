// Conformance: groups, sub-groups, meshes, and the order of calls.
#include <chrono>
#include <thread>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/mesh.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::testing {
namespace {

using comm::Group;
using comm::Work;

float sum_of_ones(const Group& group) {
  at::Tensor one = at::ones({1});
  comm::all_reduce(group, one);
  return one.item<float>();
}

void ranks_know_their_place(const Group& world) {
  EXPECT_GE(world.rank(), 0);
  EXPECT_LT(world.rank(), world.size());
  EXPECT_EQ(world.members().size(), static_cast<size_t>(world.size()));
  EXPECT_EQ(world.members()[static_cast<size_t>(world.rank())], world.rank());
  EXPECT_EQ(sum_of_ones(world), static_cast<float>(world.size()));
}

// Nobody leaves before the last has come, by the one clock of this host.
void barrier_waits_for_the_last(const Group& world) {
  const auto now = [] {
    return std::chrono::steady_clock::now().time_since_epoch().count();
  };
  for (int late = 0; late < world.size(); ++late) {
    at::Tensor came = at::zeros({1}, at::kLong);
    if (world.rank() == late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      came.fill_(now());
    }
    comm::barrier(world);
    const int64_t left = now();
    comm::broadcast(world, came, late);
    EXPECT_GE(left, came.item<int64_t>());
  }
}

void split_sorts_by_key_then_rank(const Group& world) {
  const Group half = world.split(world.rank() % 2);
  EXPECT_EQ(half.size(), (world.size() + 1 - world.rank() % 2) / 2);
  EXPECT_EQ(half.rank(), world.rank() / 2);
  EXPECT_EQ(sum_of_ones(half), static_cast<float>(half.size()));
  const Group reversed = world.split(7, -world.rank());
  EXPECT_EQ(reversed.rank(), world.size() - 1 - world.rank());
  EXPECT_EQ(reversed.members()[0], world.size() - 1);
  at::Tensor first = at::full({1}, world.rank());
  comm::broadcast(reversed, first, 0);
  EXPECT_EQ(first.item<int>(), world.size() - 1);
}

void split_leaves_out_negative_colours(const Group& world) {
  const Group part = world.split(world.rank() == 0 ? -1 : 3);
  EXPECT_EQ(static_cast<bool>(part), world.rank() != 0);
  if (part) {
    EXPECT_EQ(sum_of_ones(part), static_cast<float>(world.size() - 1));
  } else {
    EXPECT_THROW(part.rank(), InvalidArgument);
  }
}

void splits_of_splits_work_side_by_side(const Group& world) {
  Group group = world;
  std::vector<Group> all = {world};
  while (group.size() > 1) {
    group = group.split(group.rank() * 2 / group.size());
    all.push_back(group);
  }
  // Groups of different depth in between one another.
  for (int round = 0; round < 3; ++round)
    for (const Group& one : all)
      EXPECT_EQ(sum_of_ones(one), static_cast<float>(one.size()));
}

void many_splits_leave_nothing_behind(const Group& world) {
  for (int round = 0; round < 50; ++round) {
    Group part = world.split(world.rank() % 2);
    EXPECT_EQ(sum_of_ones(part), static_cast<float>(part.size()));
    part.close();
    EXPECT_THROW(part.rank(), InvalidArgument);
  }
}

void mesh_has_a_group_for_every_axis(const Group& world) {
  const int rows = world.size() % 2 == 0 ? 2 : 1;
  const int columns = world.size() / rows;
  const comm::Mesh mesh(world, {{"pp", rows}, {"dp", columns}, {"one", 1}});
  EXPECT_EQ(mesh.coordinate("pp"), world.rank() / columns);
  EXPECT_EQ(mesh.coordinate("dp"), world.rank() % columns);
  EXPECT_EQ(
      mesh.rank_at({mesh.coordinate("pp"), mesh.coordinate("dp"), 0}), world.rank());
  EXPECT_EQ(mesh["dp"].size(), columns);
  EXPECT_EQ(mesh["dp"].rank(), mesh.coordinate("dp"));
  at::Tensor row = at::full({1}, mesh.coordinate("pp"), at::kInt);
  comm::all_reduce(mesh["dp"], row);
  EXPECT_EQ(row.item<int>(), mesh.coordinate("pp") * columns);
  EXPECT_EQ(sum_of_ones(mesh["one"]), 1.0F);
  EXPECT_EQ(mesh.join({"pp", "dp"}).rank(), world.rank());
  EXPECT_EQ(mesh.join({"pp", "one"}).size(), rows);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { mesh["tp"]; }), "pp (" + std::to_string(rows)));
}

void async_calls_keep_their_order(const Group& world) {
  std::vector<at::Tensor> tensors;
  std::vector<Work> works;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back(at::full({i % 4 == 0 ? 50000 : 3}, i + world.rank()));
    works.push_back(comm::all_reduce(world, tensors.back(), {.async = true}));
  }
  // A call on this thread comes after all that were queued.
  EXPECT_EQ(sum_of_ones(world), static_cast<float>(world.size()));
  for (int i = 0; i < 20; ++i) {
    const auto index = static_cast<size_t>(i);
    EXPECT_TRUE(works[index].test());
    works[index].wait();
    const int n = world.size();
    EXPECT_EQ(tensors[index][0].item<int>(), i * n + n * (n - 1) / 2);
  }
}

void every_collective_can_be_async(const Group& world) {
  const int n = world.size();
  const auto own = at::full({3}, world.rank());
  at::Tensor sum = own.clone(), rooted = own.clone(), copied = own.clone();
  at::Tensor part = at::zeros({3}, at::kLong), all = at::zeros({n, 3}, at::kLong);
  at::Tensor swapped = at::zeros({n, 3}, at::kLong), given = at::zeros({3}, at::kLong);
  std::vector<at::Tensor> uneven, gathered, lists(static_cast<size_t>(n));
  for (at::Tensor& one : lists)
    one = at::zeros({3}, at::kLong);
  if (world.rank() == 0)
    gathered = {lists.begin(), lists.end()};
  std::vector<at::Tensor> outs;
  for (int k = 0; k < n; ++k)
    outs.push_back(at::zeros({3}, at::kLong));
  const std::vector<Work> works = {
      comm::all_reduce(world, sum, {.async = true}),
      comm::reduce(world, rooted, 0, {.async = true}),
      comm::broadcast(world, copied, n - 1, {.async = true}),
      comm::all_gather(world, all, own, {.async = true}),
      comm::all_gather_uneven(
          world, uneven, own.slice(0, 0, world.rank() % 3), {.async = true}),
      comm::reduce_scatter(world, part, at::ones({n, 3}, at::kLong), {.async = true}),
      comm::all_to_all(world, swapped, own.expand({n, 3}), {.async = true}),
      comm::all_to_all(
          world, outs, std::vector<at::Tensor>(outs.size(), own), {.async = true}),
      comm::gather(world, gathered, own, 0, {.async = true}),
      comm::scatter(world, given, gathered, 0, {.async = true}),
      comm::barrier(world, {.async = true})};
  for (const Work& work : works)
    work.wait();
  const int64_t total = n * (n - 1) / 2;
  EXPECT_EQ(sum[0].item<int64_t>(), total);
  EXPECT_EQ(rooted[0].item<int64_t>(), world.rank() == 0 ? total : world.rank());
  EXPECT_EQ(copied[2].item<int64_t>(), n - 1);
  EXPECT_EQ(part[1].item<int64_t>(), n);
  EXPECT_EQ(given[1].item<int64_t>(), world.rank());
  for (int k = 0; k < n; ++k) {
    EXPECT_EQ(all[k][1].item<int64_t>(), k);
    EXPECT_EQ(swapped[k][1].item<int64_t>(), k);
    EXPECT_EQ(outs[static_cast<size_t>(k)][1].item<int64_t>(), k);
    EXPECT_EQ(uneven[static_cast<size_t>(k)].numel(), k % 3);
  }
}

void async_errors_come_with_wait(const Group& world) {
  at::Tensor x = at::ones({world.rank() == 0 ? 2 : 3});
  const Work work = comm::all_reduce(world, x, {.async = true});
  if (world.size() > 1) {
    EXPECT_THROW(work.wait(), InvalidArgument);
  } else {
    work.wait();
  }
}

}  // namespace

std::vector<ConformanceCase> group_cases() {
  return {
      {"RanksKnowTheirPlace", ranks_know_their_place},
      {"BarrierWaitsForTheLast", barrier_waits_for_the_last},
      {"SplitSortsByKeyThenRank", split_sorts_by_key_then_rank},
      {"SplitLeavesOutNegativeColours", split_leaves_out_negative_colours},
      {"SplitsOfSplitsWorkSideBySide", splits_of_splits_work_side_by_side},
      {"ManySplitsLeaveNothingBehind", many_splits_leave_nothing_behind},
      {"MeshHasAGroupForEveryAxis", mesh_has_a_group_for_every_axis},
      {"AsyncCallsKeepTheirOrder", async_calls_keep_their_order},
      {"EveryCollectiveCanBeAsync", every_collective_can_be_async},
      {"AsyncErrorsComeWithWait", async_errors_come_with_wait}};
}

}  // namespace trireme::testing
