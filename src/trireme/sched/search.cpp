#include "trireme/sched/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>

#include "trireme/core/error.h"
#include "trireme/sched/search_state.h"

namespace trireme::sched {
namespace {

// Of the partial schedules that have done the same, those that no other beats.
class Front {
 public:
  void add(Partial&& candidate) {
    for (const Partial& other : partials_)
      if (other.is_no_later_than(candidate))
        return;
    std::erase_if(partials_, [&](const Partial& other) {
      return candidate.is_no_later_than(other);
    });
    partials_.push_back(std::move(candidate));
  }
  std::vector<Partial>& partials() { return partials_; }

 private:
  std::vector<Partial> partials_;
};

// Everything that has the same amount of work behind it.
using Layer = std::map<std::vector<int>, Front>;

class Search {
 public:
  Search(const SearchProblem& problem, const SearchOptions& options)
      : model_(problem),
        width_(static_cast<size_t>(std::max(1, options.width))),
        better_than_(options.better_than) {}

  SearchResult run() {
    layers_.resize(model_.total_work() + 1);
    layers_[0][{}].add(model_.start());
    for (size_t work = 0; work < model_.total_work(); ++work) {
      for (Partial& partial : keep_best(layers_[work]))
        expand(partial, work);
      layers_[work].clear();
    }
    SearchResult result;
    for (Partial& done : keep_best(layers_.back())) {
      if (result.schedule && done.end() >= result.makespan)
        continue;
      result.makespan = done.end();
      result.schedule = model_.schedule_of(done);
    }
    result.exact = model_.complete() &&
                   dropped_ >= (result.schedule ? result.makespan : better_than_);
    return result;
  }

 private:
  // The partial schedules of a layer, the most promising first, no more than `width_`.
  std::vector<Partial> keep_best(Layer& layer) {
    std::vector<Partial*> all;
    for (auto& [counts, front] : layer)
      for (Partial& partial : front.partials())
        all.push_back(&partial);
    std::sort(all.begin(), all.end(), [](const Partial* a, const Partial* b) {
      return a->is_better_than(*b);
    });
    std::vector<Partial> best;
    best.reserve(std::min(all.size(), width_));
    for (size_t i = 0; i < all.size(); ++i)
      if (i < width_)
        best.push_back(std::move(*all[i]));
      else
        dropped_ = std::min(dropped_, all[i]->bound);
    return best;
  }

  void expand(const Partial& partial, size_t work) {
    for (const Move& move : model_.moves(partial)) {
      Partial next = model_.after(partial, move);
      if (next.bound >= better_than_)
        continue;
      Layer& layer = layers_[work + work_of(move.action.kind())];
      layer[next.counts].add(std::move(next));
    }
  }

  const SearchModel model_;
  size_t width_;
  double better_than_;
  std::vector<Layer> layers_;
  /// The least bound of what was dropped.
  double dropped_ = std::numeric_limits<double>::infinity();
};

}  // namespace

void check_problem(const SearchProblem& problem) {
  const auto& owners = problem.rank_of_stage;
  const auto stages = static_cast<int64_t>(owners.size());
  if (stages == 0 || problem.microbatches < 1)
    throw InvalidArgument(text(
        "[sched] wanted at least one stage and one microbatch, got ",
        stages,
        " and ",
        problem.microbatches));
  constexpr int64_t kMost = 1 << 20;
  if (stages * problem.microbatches > kMost)
    throw InvalidArgument(text(
        "[sched] wanted stages x microbatches up to ",
        kMost,
        " to put into order, got ",
        stages * problem.microbatches,
        "; take a schedule with a name"));
  for (const int rank : owners)
    if (rank < 0 || rank >= stages)
      throw InvalidArgument(text(
          "[sched] wanted stages on ranks 0 to ", stages - 1, ", got rank ", rank));
  check_costs(problem.costs, static_cast<int>(stages), count_ranks(owners));
  if (std::isnan(problem.memory_limit) || problem.memory_limit < 0)
    throw InvalidArgument(text(
        "[sched] wanted a memory limit of at least 0 bytes, got ",
        problem.memory_limit));
}

SearchResult search(const SearchProblem& problem, const SearchOptions& options) {
  return Search(problem, options).run();
}

}  // namespace trireme::sched
