#include "trireme/sched/schedule.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::sched {

int64_t Schedule::size() const {
  int64_t count = 0;
  for (const auto& list : actions)
    count += static_cast<int64_t>(list.size());
  return count;
}

StageGraph::StageGraph(const Schedule& schedule)
    : after_(schedule.rank_of_stage.size()), before_(after_.size()) {
  const auto add = [this](int from, int to) {
    after_[static_cast<size_t>(from)].push_back(to);
    before_[static_cast<size_t>(to)].push_back(from);
  };
  for (int stage = 0; stage + 1 < schedule.stages(); ++stage)
    add(stage, stage + 1);
  for (const StageEdge& edge : schedule.extra_edges) {
    if (edge.from < 0 || edge.from >= edge.to || edge.to >= schedule.stages())
      throw InvalidArgument(text(
          "[sched] expected extra edges that go forward between stages 0 to ",
          schedule.stages() - 1,
          ", got one from ",
          edge.from,
          " to ",
          edge.to,
          "; correct that edge"));
    add(edge.from, edge.to);
  }
  for (auto* lists : {&after_, &before_})
    for (std::vector<int>& list : *lists) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
}

const std::vector<int>& StageGraph::after(int stage) const {
  return after_[static_cast<size_t>(stage)];
}

const std::vector<int>& StageGraph::before(int stage) const {
  return before_[static_cast<size_t>(stage)];
}

std::vector<int> map_stages(StageMap map, int ranks, int stages) {
  const bool whole = map == StageMap::V;
  if (ranks < 1 || stages < ranks || (whole && stages % ranks != 0))
    throw InvalidArgument(text(
        "[sched] expected a number of stages that is ",
        whole ? "a multiple of" : "at least",
        " the number of ranks, got ",
        stages,
        " stages and ",
        ranks,
        " ranks; the next that fits is ",
        ranks < 1
            ? 1
            : std::max<int64_t>(1, (int64_t{stages} + ranks - 1) / ranks) * ranks));
  std::vector<int> owners(static_cast<size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    const int place = stage % ranks;
    const bool back = map == StageMap::V && stage / ranks % 2 == 1;
    owners[static_cast<size_t>(stage)] = back ? ranks - 1 - place : place;
  }
  return owners;
}

int count_ranks(const std::vector<int>& rank_of_stage) {
  return 1 + *std::max_element(rank_of_stage.begin(), rank_of_stage.end());
}

std::vector<int> stages_of(const std::vector<int>& rank_of_stage, int rank) {
  std::vector<int> stages;
  for (size_t stage = 0; stage < rank_of_stage.size(); ++stage)
    if (rank_of_stage[stage] == rank)
      stages.push_back(static_cast<int>(stage));
  return stages;
}

}  // namespace trireme::sched
