// The part of `bench pipe` that sets our executor beside torch's engine.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "trireme/autograd/executor.h"
#include "trireme/bench/record.h"

namespace trireme::bench {

/// A graph whose backward is timed.
struct GraphCase {
  /// What jobs call it.
  std::string kind;
  /// What people call it.
  std::string name;
  /// In one round.
  int repetitions = 100;
  /// The least ratio that is asked for: not to be slower.
  double goal = 1;
};
const std::vector<GraphCase>& graph_cases();

/// Backwards over one kind of graph, which is made anew for each.
class GraphBackward {
 public:
  /// InvalidArgument unless `kind` is that of one of graph_cases().
  explicit GraphBackward(const std::string& kind);

  /// The seconds of one backward, by our executor or by torch's engine. Gradients are
  /// dropped afterwards.
  double run(bool ours);
  /// How many nodes there are, leaves included.
  size_t nodes() const;

  using Maker = std::function<at::Tensor(const std::vector<at::Tensor>& leaves)>;

 private:
  std::vector<at::Tensor> leaves_;
  Maker forward_;
  autograd::Executor executor_;
};

/// Adds one round of a case to its record, both sides in turn.
using GraphRound = std::function<void(const GraphCase& one, Record& record)>;
/// A record a case.
std::vector<Record> measure_executor(const GraphRound& round, int rounds);

}  // namespace trireme::bench
