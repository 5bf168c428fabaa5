// `trireme schedule list` names all schedules.
#include <iomanip>
#include <ostream>

#include <nlohmann/json.hpp>

#include "trireme/cli/schedule_words.h"
#include "trireme/sched/generate.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kAutoSummary =
    "The best for given costs: trireme schedule simulate Auto --costs FILE";

}  // namespace

int list_schedules(const ScheduleArguments& arguments, std::ostream& out) {
  if (arguments.format == "json") {
    Json all = Json::array();
    for (const auto& info : sched::all_schedules())
      all.push_back(
          {{"name", info.name},
           {"summary", info.summary},
           {"stage_map", info.map == sched::StageMap::V ? "v" : "loop"},
           {"stages_per_rank", info.usual_stages},
           {"splits_backward", info.splits},
           {"in_torch", info.in_torch}});
    all.push_back(
        {{"name", "Auto"},
         {"summary", kAutoSummary},
         {"stage_map", "loop or v"},
         {"stages_per_rank", 1},
         {"splits_backward", true},
         {"in_torch", false}});
    out << all.dump(2) << "\n";
    return 0;
  }
  for (const auto& info : sched::all_schedules())
    out << std::left << std::setw(24) << info.name << info.summary << "\n";
  out << std::left << std::setw(24) << "Auto" << kAutoSummary << "\n";
  return 0;
}

}  // namespace trireme::cli
