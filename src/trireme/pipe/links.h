// Which tensors go from which stage to which.
#pragma once
#include <string>
#include <vector>

#include "trireme/pipe/stage_module.h"
#include "trireme/sched/schedule.h"

namespace trireme::pipe {

/// An output that does not go to the next stage but past it, by its number: for stages
/// that are cut once and for all. (Layers name what they save and take, wherever the
/// model is cut: see saving() and taking() in layers.h.)
///
///     PipelineOptions{.skips = {{.from = 0, .output = 1, .to = 3}}}
///
/// The inputs of a stage are, in this order: the outputs of the stage before it; what
/// comes by these connections, in the order in which they are given; the side inputs;
/// and what its layers take by name.
struct SkipConnection {
  int from = 0;
  int output = 0;
  int to = 0;
  bool operator==(const SkipConnection&) const = default;
};

/// What a stage saves and takes by name; see StageModule.
struct StageSkips {
  std::vector<std::string> saved{};
  std::vector<std::string> taken{};
};

/// The ways between all stages, as each of them sees it. Both ends number a stage's
/// edges alike: the neighbour first, then those of skip connections.
class Links {
 public:
  /// `named` has an entry a stage, or is empty. InvalidArgument unless every connection
  /// leads past at least one stage, and every name that is taken is saved once, in a
  /// stage before.
  Links(
      int stages,
      const std::vector<SkipConnection>& skips,
      const std::vector<StageSkips>& named = {});

  size_t stages() const { return in_.size(); }

  struct Out {
    int to = 0;
    /// The outputs that go there; none for the next stage, which gets all others.
    std::vector<size_t> outputs{};
    /// Of what the stage saves by name, that which goes there.
    std::vector<size_t> saved{};
  };
  const std::vector<Out>& out(int stage) const;
  /// The stages that inputs come from, in order.
  const std::vector<int>& in(int stage) const;

  /// How many tensors a stage saves and takes by name: the last ones of its outputs and
  /// of its inputs.
  size_t saved(int stage) const;
  size_t taken(int stage) const;

  /// What came by skip connections and by name, edge by edge, in the order in which the
  /// stage gets it: the k-th of these arguments is number skip_order(stage)[k] of them.
  const std::vector<size_t>& skip_order(int stage) const;

  /// Where a neighbour stands in in() or out().
  size_t in_edge(int stage, int from) const;
  size_t out_edge(int stage, int to) const;

  /// Calls `visit` with the number of each output that takes an edge, of `count`
  /// outputs; of the last stage, which has no edges, with each: its output is the loss.
  /// InvalidArgument if a connection names one that is not there.
  template <class Visit>
  void for_each_output(int stage, size_t edge, size_t count, Visit&& visit) const {
    if (out(stage).empty()) {
      for (size_t output = 0; output < count; ++output)
        visit(output);
      return;
    }
    const Out& way = out(stage)[edge];
    const size_t plain = plain_outputs(stage, count);
    if (edge == 0)
      for (size_t output = 0; output < plain; ++output)
        if (!is_skip(stage, output))
          visit(output);
    for (const size_t output : way.outputs) {
      if (output >= plain)
        throw_missing(stage, edge, plain);
      visit(output);
    }
    for (const size_t saved : way.saved)
      visit(plain + saved);
  }

  /// What schedules have to know.
  std::vector<sched::StageEdge> extra_edges() const;

 private:
  /// One tensor of a stage's tail of inputs: from which stage, and the how many-th of
  /// that edge's.
  struct Arrival {
    int from = 0;
    size_t number = 0;
  };
  Out& edge_to(int from, int to);
  void add_skip(const SkipConnection& skip);
  void add_named(const std::vector<StageSkips>& named);
  std::vector<size_t> find_skip_order(int stage) const;
  size_t plain_outputs(int stage, size_t count) const;
  bool is_skip(int stage, size_t output) const;
  [[noreturn]] void throw_missing(int stage, size_t edge, size_t count) const;

  std::vector<std::vector<Out>> out_;
  std::vector<std::vector<int>> in_;
  std::vector<size_t> saved_;
  std::vector<size_t> taken_;
  /// By stage, in the order in which it gets them.
  std::vector<std::vector<Arrival>> skipped_;
  std::vector<std::vector<Arrival>> named_;
  std::vector<std::vector<size_t>> skip_order_;
};

}  // namespace trireme::pipe
