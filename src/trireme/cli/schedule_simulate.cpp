// `trireme schedule simulate` times one.
#include <cmath>
#include <iomanip>
#include <ostream>

#include <nlohmann/json.hpp>

#include "trireme/cli/schedule_input.h"
#include "trireme/cli/schedule_words.h"
#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/plan.h"
#include "trireme/sched/simulate.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

Json path_json(const sched::Schedule& schedule, const std::vector<sched::Timed>& path) {
  Json all = Json::array();
  for (const sched::Timed& timed : path)
    all.push_back(
        {{"action", sched::to_string(timed.action)},
         {"rank", schedule.owner(timed.action.stage())},
         {"start", timed.start},
         {"end", timed.end}});
  return all;
}

// "0F0 > 1F0 1B0 > 0B0", with > where it goes on to another rank; of a long one both
// ends.
std::string path_text(
    const sched::Schedule& schedule, const std::vector<sched::Timed>& path) {
  constexpr size_t kMostAtAnEnd = 12;
  const bool whole = path.size() <= 2 * kMostAtAnEnd + 1;
  std::string out;
  int rank = -1;
  for (size_t i = 0; i < path.size(); ++i) {
    const bool left_out = !whole && i >= kMostAtAnEnd && i < path.size() - kMostAtAnEnd;
    const int owner = schedule.owner(path[i].action.stage());
    if (left_out && i == kMostAtAnEnd)
      out += text(" ... ", path.size() - 2 * kMostAtAnEnd, " more ...");
    if (!left_out)
      out += text(
          rank < 0 || rank == owner ? " " : " > ", sched::to_string(path[i].action));
    rank = owner;
  }
  return out;
}

Json simulation_json(const sched::Schedule& schedule, const sched::Simulation& result) {
  return {
      {"schedule", schedule.name},
      {"ranks", schedule.ranks()},
      {"stages", schedule.stages()},
      {"microbatches", schedule.microbatches},
      {"makespan", result.makespan},
      {"ideal", result.ideal},
      {"wall_bubble", result.wall_bubble},
      {"span_bubble", result.span_bubble},
      {"busy", result.busy},
      {"idle", result.idle},
      {"peak_activations", result.peak_activations},
      {"peak_bytes", result.peak_bytes},
      {"critical_path", path_json(schedule, result.critical_path)}};
}

void print_ranks(const sched::Simulation& result, std::ostream& out) {
  const auto row = [&out](auto rank, auto busy, auto idle, auto live, auto bytes) {
    out << std::left << std::setw(6) << rank << std::setw(12) << busy << std::setw(12)
        << idle << std::setw(18) << live << bytes << "\n";
  };
  row("rank", "busy", "idle", "live activations", "bytes");
  for (size_t rank = 0; rank < result.busy.size(); ++rank)
    row(rank,
        result.busy[rank],
        result.idle[rank],
        result.peak_activations[rank],
        result.peak_bytes[rank]);
}

}  // namespace

int simulate_schedule(const ScheduleArguments& arguments, std::ostream& out) {
  const sched::CostFile costs = read_costs(arguments);
  const sched::Schedule schedule = read_schedule(arguments, costs);
  const auto result = sched::simulate(
      schedule,
      {.costs = sched::stage_costs(costs, schedule.rank_of_stage), .details = true});
  if (arguments.format == "json") {
    out << simulation_json(schedule, result).dump(2) << "\n";
    return 0;
  }
  out << schedule.name << ": time " << result.makespan << ", of which "
      << result.wall_bubble << " bubble ("
      << std::round(1000 * result.wall_bubble / std::max(result.makespan, 1e-300)) / 10
      << " %); within a rank's own span " << result.span_bubble << "\n";
  print_ranks(result, out);
  out << "critical path, " << result.critical_path.size()
      << " actions (> to another rank):" << path_text(schedule, result.critical_path)
      << "\n";
  return 0;
}

}  // namespace trireme::cli
