#include "trireme/launch/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {
namespace {

using Plan = std::vector<std::vector<int>>;

// Nodes with so many cores of so many threads each. Ids as Linux gives them: first all
// first threads, then all second ones; every `hole`-th CPU is left out.
std::vector<Cpu> make_cpus(const std::vector<int>& cores, int threads, int hole = 0) {
  const int all = std::accumulate(cores.begin(), cores.end(), 0);
  std::vector<Cpu> cpus;
  int core = 0;
  for (int node = 0; node < static_cast<int>(cores.size()); ++node)
    for (int i = 0; i < cores[static_cast<size_t>(node)]; ++i, ++core)
      for (int thread = 0; thread < threads; ++thread)
        cpus.push_back({.id = thread * all + core, .node = node * 2 + 1, .core = core});
  if (hole > 0)
    std::erase_if(cpus, [hole](const Cpu& cpu) { return cpu.id % hole == hole - 1; });
  return cpus;
}

std::string describe(const std::vector<Cpu>& cpus, size_t ranks) {
  std::string out = text(ranks, " ranks on");
  for (const Cpu& cpu : cpus)
    out += text(" ", cpu.id, "/", cpu.node, "/", cpu.core);
  return out;
}

// The most that the worst placed of `ranks` ranks can have, each within one of these
// nodes: by trying all ways to share out the ranks.
size_t best_worst(const std::vector<size_t>& nodes, size_t node, size_t ranks) {
  if (ranks == 0)
    return std::numeric_limits<size_t>::max();
  if (node == nodes.size())
    return 0;
  size_t best = best_worst(nodes, node + 1, ranks);
  for (size_t here = 1; here <= ranks; ++here)
    best = std::max(
        best, std::min(nodes[node] / here, best_worst(nodes, node + 1, ranks - here)));
  return best;
}

// What every plan must be, in the terms of its description.
class PlanCheck {
 public:
  PlanCheck(const std::vector<Cpu>& cpus, size_t ranks) : ranks_(ranks) {
    for (const Cpu& cpu : cpus) {
      cpus_[cpu.id] = cpu;
      cores_[{cpu.node, cpu.core}].insert(cpu.id);
    }
    whole_cores_ = ranks <= cores_.size();
    std::map<int, size_t> units;
    for (const auto& [core, ids] : cores_)
      units[core.first] += whole_cores_ ? 1 : ids.size();
    for (const auto& [node, count] : units)
      nodes_.push_back(count);
    for (const auto& ids : plan_cores(cpus, static_cast<int>(ranks)))
      plan_.push_back(ids);
  }

  void run() {
    ASSERT_EQ(plan_.size(), ranks_);
    check_disjoint();
    check_cores();
    ranks_ >= nodes_.size() ? check_within_nodes() : check_even_over_nodes();
  }

 private:
  void check_disjoint() {
    for (const std::vector<int>& ids : plan_) {
      ASSERT_FALSE(ids.empty());
      ASSERT_TRUE(std::is_sorted(ids.begin(), ids.end()));
      for (const int id : ids) {
        ASSERT_TRUE(cpus_.contains(id)) << id;
        ASSERT_TRUE(used_.insert(id).second) << id << " was given twice";
      }
    }
  }

  // In whole cores, if there are enough of them.
  void check_cores() {
    for (const std::vector<int>& ids : plan_) {
      std::set<std::pair<int, int>> cores;
      for (const int id : ids)
        cores.insert({cpus_[id].node, cpus_[id].core});
      size_t whole = 0;
      for (const auto& core : cores)
        whole += cores_[core].size();
      if (whole_cores_) {
        ASSERT_EQ(whole, ids.size()) << "a core is shared";
      }
      sizes_.push_back(whole_cores_ ? cores.size() : ids.size());
    }
  }

  void check_within_nodes() {
    std::map<int, std::vector<size_t>> by_node;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const int node = cpus_[plan_[rank].front()].node;
      for (const int id : plan_[rank])
        ASSERT_EQ(cpus_[id].node, node) << "rank " << rank << " is on two nodes";
      by_node[node].push_back(sizes_[rank]);
    }
    EXPECT_EQ(
        *std::min_element(sizes_.begin(), sizes_.end()), best_worst(nodes_, 0, ranks_))
        << "it could be more even";
    for (const auto& [node, sizes] : by_node) {
      const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
      EXPECT_LE(*most - *least, 1u);
    }
    for (const auto& [id, cpu] : cpus_)
      if (by_node.contains(cpu.node)) {
        EXPECT_TRUE(used_.contains(id)) << id << " is idle beside ranks";
      }
    if (std::adjacent_find(nodes_.begin(), nodes_.end(), std::not_equal_to<>()) ==
        nodes_.end()) {
      EXPECT_EQ(used_.size(), cpus_.size()) << "equal nodes are all used";
    }
  }

  void check_even_over_nodes() {
    const auto [least, most] = std::minmax_element(sizes_.begin(), sizes_.end());
    EXPECT_LE(*most - *least, 1u);
    EXPECT_EQ(used_.size(), cpus_.size()) << "a CPU is idle";
  }

  size_t ranks_;
  std::map<int, Cpu> cpus_;
  std::map<std::pair<int, int>, std::set<int>> cores_;
  bool whole_cores_ = false;
  std::vector<size_t> nodes_;  // units of each
  Plan plan_;
  std::set<int> used_;
  std::vector<size_t> sizes_;  // units of each rank
};

void check_all_counts(std::vector<Cpu> cpus) {
  std::mt19937 random(7);
  std::shuffle(cpus.begin(), cpus.end(), random);
  for (size_t ranks = 1; ranks <= cpus.size(); ++ranks) {
    SCOPED_TRACE(describe(cpus, ranks));
    PlanCheck(cpus, ranks).run();
    if (::testing::Test::HasFailure())
      return;
  }
  EXPECT_EQ(plan_cores(cpus, static_cast<int>(cpus.size()) + 1), Plan());
}

TEST(PlanCores, HoldsItsPromisesOnManyMachines) {
  for (int nodes = 1; nodes <= 4; ++nodes)
    for (int cores = 1; cores <= 5; ++cores)
      for (int threads = 1; threads <= 2; ++threads)
        for (const int hole : {0, 3, 7})
          check_all_counts(make_cpus(
              std::vector<int>(static_cast<size_t>(nodes), cores), threads, hole));
}

TEST(PlanCores, HoldsItsPromisesOnUnevenNodes) {
  std::mt19937 random(2026);
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    std::vector<int> cores(1 + random() % 4);
    for (int& count : cores)
      count = 1 + static_cast<int>(random() % 8);
    const int threads = 1 + static_cast<int>(random() % 2);
    const int hole = random() % 2 == 0 ? 0 : 2 + static_cast<int>(random() % 6);
    check_all_counts(make_cpus(cores, threads, hole));
  }
}

TEST(PlanCores, KeepsRanksInTheOrderOfTheNodes) {
  EXPECT_EQ(plan_cores(make_cpus({2, 2}, 1), 2), (Plan{{0, 1}, {2, 3}}));
  EXPECT_EQ(plan_cores(make_cpus({2, 2}, 1), 1), (Plan{{0, 1, 2, 3}}));
  EXPECT_EQ(plan_cores(make_cpus({2, 2}, 2), 2), (Plan{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(plan_cores(make_cpus({2}, 2), 4), (Plan{{0}, {2}, {1}, {3}}));
}

TEST(PlanCores, LeavesANodeFreeThatWouldSlowAllDown) {
  EXPECT_EQ(plan_cores(make_cpus({8, 1}, 1), 2), (Plan{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(PlanCores, IsEmptyWhereNothingCanBeGiven) {
  EXPECT_EQ(plan_cores({}, 1), Plan());
  EXPECT_EQ(plan_cores(make_cpus({4}, 1), 0), Plan());
  EXPECT_EQ(plan_cores(make_cpus({4}, 1), -1), Plan());
  EXPECT_EQ(plan_cores(make_cpus({4}, 1), 5), Plan());
}

TEST(ReadCpus, TakesNodesAndCoresFromTheTree) {
  const testing::ScratchFolder system;
  system.write("node/online", "0,3\n");
  system.write("node/node0/cpulist", "0-1,4-5\n");
  system.write("node/node3/cpulist", "2-3,6-7\n");
  for (const int id : {0, 1, 2, 3, 4, 5, 6, 7})
    system.write(
        text("cpu/cpu", id, "/topology/thread_siblings_list"),
        text(id % 4, ",", id % 4 + 4, "\n"));
  const auto cpus = read_cpus({1, 2, 6, 5}, system.path());
  ASSERT_EQ(cpus.size(), 4u);
  const std::vector<std::array<int, 3>> wanted = {
      {1, 0, 1}, {2, 3, 2}, {6, 3, 2}, {5, 0, 1}};
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ((std::array{cpus[i].id, cpus[i].node, cpus[i].core}), wanted[i]);
}

TEST(ReadCpus, WithoutATreeEachCpuIsACoreOfOneNode) {
  const auto cpus = read_cpus({3, 5}, "/nonexistent");
  ASSERT_EQ(cpus.size(), 2u);
  EXPECT_EQ(cpus[0].node, cpus[1].node);
  EXPECT_NE(cpus[0].core, cpus[1].core);
}

TEST(ReadCpus, KnowsThisMachine) {
  const auto cpus = read_cpus(allowed_cpus());
  EXPECT_EQ(cpus.size(), allowed_cpus().size());
  EXPECT_FALSE(plan_cores(cpus, 1).empty());
}

}  // namespace
}  // namespace trireme::launch
