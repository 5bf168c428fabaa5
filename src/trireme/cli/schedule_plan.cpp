// `trireme schedule plan` ranks them all.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ostream>

#include <nlohmann/json.hpp>

#include "trireme/cli/schedule_input.h"
#include "trireme/cli/schedule_words.h"
#include "trireme/core/error.h"
#include "trireme/sched/plan.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNothingFits = 1;

Json plan_json(const std::vector<sched::PlanEntry>& entries) {
  Json all = Json::array();
  for (const auto& entry : entries) {
    Json layers = Json::array();
    for (const auto& range : entry.layers)
      layers.push_back({range.first, range.last});
    all.push_back(
        {{"schedule", entry.schedule},
         {"stages_per_rank", entry.stages_per_rank},
         {"stage_map", entry.map == sched::StageMap::V ? "v" : "loop"},
         {"microbatches", entry.microbatches},
         {"makespan", entry.makespan},
         {"time_per_microbatch", entry.time_per_microbatch()},
         {"wall_bubble", entry.wall_bubble},
         {"peak_bytes", entry.peak_bytes},
         {"fits", entry.fits},
         {"layers", std::move(layers)}});
  }
  return all;
}

void print_table(const std::vector<sched::PlanEntry>& entries, std::ostream& out) {
  out << "time/microbatch  bubble  bytes        schedule\n";
  constexpr size_t kMostRows = 20;
  for (size_t i = 0; i < std::min(entries.size(), kMostRows); ++i) {
    const auto& entry = entries[i];
    out << std::left << std::setw(17) << entry.time_per_microbatch() << std::setw(8)
        << text(std::round(1000 * entry.bubble_share()) / 10, " %") << std::setw(13)
        << entry.peak_bytes << entry.schedule << ", " << entry.stages_per_rank
        << (entry.map == sched::StageMap::V ? " a rank there and back, " : " a rank, ")
        << entry.microbatches << " microbatches"
        << (entry.fits ? "" : " (does not fit)") << "\n";
  }
  if (entries.size() > kMostRows)
    out << "and " << entries.size() - kMostRows << " more (--format json has all)\n";
}

}  // namespace

int plan_schedule(
    const ScheduleArguments& arguments, std::ostream& out, std::ostream& err) {
  sched::PlanRequest request{.costs = read_costs(arguments), .ranks = arguments.ranks};
  if (arguments.microbatches != 0)
    request.microbatches = {arguments.microbatches};
  request.memory_limit = arguments.memory_limit.value_or(request.memory_limit);
  const auto [entries, left_out] = sched::plan(request);
  const std::string winner = sched::explain(entries, request.memory_limit);
  const bool fits = entries[0].fits;
  if (arguments.format == "json") {
    out << plan_json(entries).dump(2) << "\n";
    // Not into the JSON, which is a list of ways.
    if (!left_out.empty())
      err << "trireme: [cli] " << left_out << "\n";
  } else {
    if (fits)
      out << winner << "\n\n";
    print_table(entries, out);
    if (!left_out.empty())
      out << "\n" << left_out << "\n";
  }
  if (!fits)
    err << "trireme: [cli] " << winner << "; raise --memory-limit\n";
  return fits ? 0 : kNothingFits;
}

}  // namespace trireme::cli
