// Schedule: what every rank of a pipeline does, in order. The module's main type.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/sched/action.h"

namespace trireme::sched {

/// A way for activations between two stages; gradients take it back. Every stage but
/// the last has one to the next; a skip connection is one more.
struct StageEdge {
  int from = 0;
  int to = 0;
  bool operator==(const StageEdge&) const = default;
};

/// One list of actions a rank. Compute-only schedules say what is computed, and may
/// have bubbles to show time; lower() makes of them what ranks carry out, with sends
/// and receives.
///
///     Schedule s = generate("1F1B", {.ranks = 4, .microbatches = 8});
///     std::cout << to_csv(s);
struct Schedule {
  /// Who made it: "1F1B", or the file's name.
  std::string name;
  int microbatches = 0;
  /// The rank that owns each stage.
  std::vector<int> rank_of_stage;
  /// Edges beside those from each stage to the next. One SEND_F of a stage serves all
  /// its edges to other ranks, and one RECV_F all that come from there.
  std::vector<StageEdge> extra_edges;
  /// The actions of each rank.
  std::vector<std::vector<Action>> actions;
  /// Whether it has sends and receives.
  bool lowered = false;

  int ranks() const { return static_cast<int>(actions.size()); }
  int stages() const { return static_cast<int>(rank_of_stage.size()); }
  int owner(int stage) const { return rank_of_stage[static_cast<size_t>(stage)]; }
  /// All actions of all ranks; bubbles count too.
  int64_t size() const;
};

/// The neighbours of every stage, extra edges included.
class StageGraph {
 public:
  explicit StageGraph(const Schedule& schedule);
  /// The stages that take the output of `stage`, and those that give its input;
  /// ascending, each once.
  const std::vector<int>& after(int stage) const;
  const std::vector<int>& before(int stage) const;

 private:
  std::vector<std::vector<int>> after_;
  std::vector<std::vector<int>> before_;
};

/// How stages go to ranks.
enum class StageMap {
  Loop,  // 0, 1, …, P-1, 0, 1, …
  V,     // 0, 1, …, P-1, P-1, …, 1, 0, …
};

/// The rank of each stage. InvalidArgument unless `stages` is a multiple of `ranks`,
/// for V, or at least as many, for a loop.
std::vector<int> map_stages(StageMap map, int ranks, int stages);

/// How many ranks the owners of the stages, at least one, count up to.
int count_ranks(const std::vector<int>& rank_of_stage);

/// The stages of one rank, ascending.
std::vector<int> stages_of(const std::vector<int>& rank_of_stage, int rank);

}  // namespace trireme::sched
