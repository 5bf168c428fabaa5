// Which tensors go from which stage to which.
#pragma once
#include <vector>

#include "trireme/pipe/stage_module.h"
#include "trireme/sched/schedule.h"

namespace trireme::pipe {

/// An output that does not go to the next stage but past it. The stage `to` gets it
/// behind the outputs of the stage before it, in the order in which the connections are
/// given.
///
///     PipelineOptions{.skips = {{.from = 0, .output = 1, .to = 3}}}
struct SkipConnection {
  int from = 0;
  int output = 0;
  int to = 0;
  bool operator==(const SkipConnection&) const = default;
};

/// The ways between all stages, as each of them sees it. Both ends number a stage's
/// edges alike: the neighbour first, then those of skip connections.
class Links {
 public:
  /// InvalidArgument unless every connection leads past at least one stage.
  Links(int stages, std::vector<SkipConnection> skips);

  size_t stages() const { return in_.size(); }

  struct Out {
    int to = 0;
    /// The outputs that go there; none for the next stage, which gets all others.
    std::vector<size_t> outputs{};
  };
  const std::vector<Out>& out(int stage) const;
  /// The stages that inputs come from, in order.
  const std::vector<int>& in(int stage) const;

  /// What came by skip connections, edge by edge, in the order in which the connections
  /// were given: the k-th argument behind those of the stage before is number
  /// skip_order(stage)[k] of them.
  const std::vector<size_t>& skip_order(int stage) const;

  /// Where a neighbour stands in in() or out().
  size_t in_edge(int stage, int from) const;
  size_t out_edge(int stage, int to) const;

  /// Calls `visit` with the number of each output that takes an edge, of `count`
  /// outputs. InvalidArgument if a connection names one that is not there.
  template <class Visit>
  void for_each_output(int stage, size_t edge, size_t count, Visit&& visit) const {
    if (edge == 0) {
      for (size_t output = 0; output < count; ++output)
        if (!is_skip(stage, output))
          visit(output);
      return;
    }
    for (const size_t output : out(stage)[edge].outputs) {
      if (output >= count)
        throw_missing(stage, edge, count);
      visit(output);
    }
  }

  /// What schedules have to know.
  std::vector<sched::StageEdge> extra_edges() const;

 private:
  std::vector<size_t> find_skip_order(int stage) const;
  bool is_skip(int stage, size_t output) const;
  [[noreturn]] void throw_missing(int stage, size_t edge, size_t count) const;

  std::vector<SkipConnection> skips_;
  std::vector<std::vector<Out>> out_;
  std::vector<std::vector<int>> in_;
  std::vector<std::vector<size_t>> skip_order_;
};

}  // namespace trireme::pipe
