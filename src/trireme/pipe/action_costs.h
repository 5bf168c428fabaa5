// What the actions of steps have cost, stage by stage.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "trireme/pipe/report.h"

namespace trireme::pipe {

/// Collects steps, and gives medians to simulate with.
///
///     ActionCosts costs;
///     costs.add(pipeline.report());
///     const sched::StageCosts first = costs.of_stage(0, bytes_of_its_weights);
class ActionCosts {
 public:
  /// Takes in all that ranks have timed in a step.
  void add(const StepReport& step);

  /// Seconds of F, B, I and W, and the bytes that F keeps; 0 for what has not run.
  sched::StageCosts of_stage(int stage, double weight_bytes) const;

  /// How long messages travel, for each pair of ranks where that was seen, both ways.
  std::vector<sched::Link> links() const;

 private:
  double seconds(int stage, sched::ActionKind kind) const;
  void add_kept(const std::vector<ActionTime>& actions);
  void add_travel(const std::vector<Timeline>& timelines);

  std::map<std::pair<int, sched::ActionKind>, std::vector<double>> seconds_;
  std::map<int, std::vector<double>> kept_bytes_;
  std::map<std::pair<int, int>, std::vector<double>> travel_;
};

}  // namespace trireme::pipe
