#include "trireme/launch/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "trireme/core/error.h"
#include "trireme/core/proc_text.h"

namespace trireme::launch {
namespace {

/// What is given to one rank as a whole: the CPUs of a core, or one CPU.
using Unit = std::vector<int>;
/// The units of one NUMA node.
using Node = std::vector<Unit>;

std::vector<Node> group_units(std::vector<Cpu> cpus, bool whole_cores) {
  std::sort(cpus.begin(), cpus.end(), [](const Cpu& a, const Cpu& b) {
    return std::tie(a.node, a.core, a.id) < std::tie(b.node, b.core, b.id);
  });
  std::vector<Node> nodes;
  const Cpu* last = nullptr;
  for (const Cpu& cpu : cpus) {
    if (last == nullptr || cpu.node != last->node)
      nodes.emplace_back();
    const bool same_core = last != nullptr && !nodes.back().empty() &&
                           cpu.core == last->core && whole_cores;
    if (!same_core)
      nodes.back().emplace_back();
    nodes.back().back().push_back(cpu.id);
    last = &cpu;
  }
  return nodes;
}

size_t count_units(const std::vector<Node>& nodes) {
  return std::accumulate(
      nodes.begin(), nodes.end(), size_t{0}, [](size_t sum, const Node& node) {
        return sum + node.size();
      });
}

// How many ranks each node takes. One after the other goes where it gets most, so that
// the rank with the fewest units has as many as can be: ranks wait for the slowest. As
// there are no more ranks than units, no node takes more than it has.
std::vector<size_t> share_ranks(const std::vector<Node>& nodes, size_t ranks) {
  std::vector<size_t> shares(nodes.size());
  for (size_t rank = 0; rank < ranks; ++rank) {
    size_t best = 0;
    for (size_t i = 1; i < nodes.size(); ++i)
      if (nodes[i].size() * (shares[best] + 1) > nodes[best].size() * (shares[i] + 1))
        best = i;
    ++shares[best];
  }
  return shares;
}

// Cuts `things` into `parts` runs whose lengths differ by at most one.
template <class Thing, class Take>
void cut_evenly(const std::vector<Thing>& things, size_t parts, const Take& take) {
  for (size_t part = 0; part < parts; ++part)
    for (size_t i = part * things.size() / parts;
         i < (part + 1) * things.size() / parts;
         ++i)
      take(part, things[i]);
}

std::vector<std::vector<int>> share_units(
    const std::vector<Node>& nodes, size_t ranks) {
  std::vector<std::vector<int>> plan(ranks);
  const auto add = [&plan](size_t rank, const Unit& unit) {
    plan[rank].insert(plan[rank].end(), unit.begin(), unit.end());
  };
  if (ranks < nodes.size()) {
    Node all;
    for (const Node& node : nodes)
      all.insert(all.end(), node.begin(), node.end());
    cut_evenly(all, ranks, add);
  } else {
    const auto shares = share_ranks(nodes, ranks);
    size_t first = 0;
    for (size_t i = 0; i < nodes.size(); first += shares[i], ++i)
      cut_evenly(nodes[i], shares[i], [&](size_t part, const Unit& unit) {
        add(first + part, unit);
      });
  }
  for (std::vector<int>& cpus : plan)
    std::sort(cpus.begin(), cpus.end());
  return plan;
}

std::vector<int> read_cpu_list(const std::filesystem::path& file) {
  return parse_cpu_list(read_text_file(file).value_or(""));
}

}  // namespace

std::vector<std::vector<int>> plan_cores(const std::vector<Cpu>& cpus, int ranks) {
  const auto wanted = static_cast<size_t>(std::max(ranks, 0));
  for (const bool whole_cores : {true, false}) {
    const auto nodes = group_units(cpus, whole_cores);
    if (wanted > 0 && wanted <= count_units(nodes))
      return share_units(nodes, wanted);
  }
  return {};
}

std::vector<Cpu> read_cpus(
    const std::vector<int>& ids, const std::filesystem::path& system) {
  std::map<int, int> node_of;
  for (const int node : read_cpu_list(system / "node" / "online"))
    for (const int id : read_cpu_list(system / "node" / text("node", node) / "cpulist"))
      node_of[id] = node;
  std::vector<Cpu> cpus;
  for (const int id : ids) {
    const auto siblings = read_cpu_list(
        system / "cpu" / text("cpu", id) / "topology" / "thread_siblings_list");
    const auto node = node_of.find(id);
    // A core is named by the first of its CPUs.
    cpus.push_back(
        {.id = id,
         .node = node == node_of.end() ? 0 : node->second,
         .core = siblings.empty() ? id : siblings.front()});
  }
  return cpus;
}

}  // namespace trireme::launch
