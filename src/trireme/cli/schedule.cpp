#include "trireme/cli/schedule.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <ostream>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"
#include "trireme/core/proc_text.h"
#include "trireme/sched/auto.h"
#include "trireme/sched/cost_file.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/draw.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/plan.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLocksUp = 1;
constexpr int kWrongUsage = 2;

constexpr const char* kAutoSummary =
    "The best for given costs: trireme schedule simulate Auto --costs FILE";

// "1 message", "2 messages", "3 microbatches".
std::string counted(int64_t count, std::string_view what) {
  return text(count, " ", what, count == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

std::string read_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw InvalidArgument(text(
        "[cli] wanted a file, got ",
        in_quotes(path),
        ": ",
        std::filesystem::exists(path, error) ? "it is no regular file"
                                             : "there is no such file"));
  if (!std::ifstream(path))
    throw InvalidArgument(
        text("[cli] wanted to read ", in_quotes(path), ": ", errno_text(errno)));
  return read_text_file(path).value_or("");
}

// All or nothing: the name stands for a whole file, or for what was there before. What
// is no file, as /dev/stdout, is written to and not replaced.
void write_file(const std::string& path, const std::string& content) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool replace = !fs::exists(path, error) || fs::is_regular_file(path, error);
  // Behind a link lies the file that is meant.
  const fs::path target =
      fs::exists(path, error) ? fs::canonical(path, error) : fs::path(path);
  const std::string draft =
      replace ? text(target.native(), ".part-", ::getpid()) : path;
  std::ofstream file(draft, std::ios::binary);
  file << content;
  file.close();
  bool written = !file.fail();
  int code = errno;
  if (written && replace) {
    fs::rename(draft, target, error);
    written = !error;
    code = error.value();
  }
  if (written)
    return;
  if (replace)
    fs::remove(draft, error);
  throw InvalidArgument(
      text("[cli] wanted to write ", in_quotes(path), ": ", errno_text(code)));
}

double parse_bandwidth(const std::string& word) {
  if (word == "inf")
    return std::numeric_limits<double>::infinity();
  const auto value = parse_number<double>(word);
  if (!value || !(*value > 0))
    throw InvalidArgument(text(
        "[cli] wanted --bandwidth to be a number above 0 or inf, got ",
        in_quotes(word)));
  return *value;
}

sched::CostFile costs_of(const ScheduleArguments& arguments) {
  sched::CostFile file;
  if (!arguments.costs.empty())
    file = sched::parse_costs(read_file(arguments.costs), arguments.costs);
  else
    file.costs.stages = {
        {.forward = arguments.forward,
         .input_grad = arguments.input_grad,
         .weight_grad = arguments.weight_grad,
         .backward =
             arguments.backward.value_or(arguments.input_grad + arguments.weight_grad),
         .activation_bytes = arguments.activation_bytes}};
  file.costs.link = {
      .latency = arguments.latency, .bandwidth = parse_bandwidth(arguments.bandwidth)};
  file.costs.overlap_gain = arguments.overlap_gain;
  if (arguments.message_bytes != 0)
    file.costs.message_bytes = arguments.message_bytes;
  return file;
}

bool is_file(const std::string& what) {
  return what.ends_with(".csv") || what.find('/') != std::string::npos;
}

bool is_auto(const std::string& what) {
  return what.size() == 4 && ::strcasecmp(what.c_str(), "auto") == 0;
}

// What the words say of a file's size has to be true.
void check_size(
    const ScheduleArguments& arguments, const char* option, int wanted, int64_t got) {
  if (wanted != 0 && wanted != got)
    throw InvalidArgument(text(
        "[cli] wanted ",
        in_quotes(arguments.what),
        " to fit ",
        option,
        " ",
        wanted,
        ", got ",
        got,
        "; the option can be left out"));
}

sched::Schedule load_file(const ScheduleArguments& arguments) {
  auto schedule = sched::parse_csv(read_file(arguments.what), arguments.what);
  sched::validate(schedule);
  check_size(arguments, "--ranks", arguments.ranks, schedule.ranks());
  check_size(
      arguments, "--microbatches", arguments.microbatches, schedule.microbatches);
  check_size(
      arguments,
      "--stages-per-rank",
      arguments.stages_per_rank,
      schedule.stages() / schedule.ranks());
  return schedule;
}

// The schedule that the words name; costs are for Auto.
sched::Schedule load(const ScheduleArguments& arguments, const sched::CostFile& costs) {
  if (is_file(arguments.what))
    return load_file(arguments);
  if (arguments.ranks == 0 || arguments.microbatches == 0)
    throw InvalidArgument(text(
        "[cli] wanted --ranks and --microbatches for ",
        in_quotes(arguments.what),
        ", got ",
        arguments.ranks != 0 || arguments.microbatches != 0 ? "only one" : "neither"));
  const sched::ScheduleSize size{
      .ranks = arguments.ranks,
      .microbatches = arguments.microbatches,
      .stages_per_rank = arguments.stages_per_rank};
  return is_auto(arguments.what) ? sched::make_auto(size, costs).schedule
                                 : sched::generate(arguments.what, size);
}

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

std::string rows_of(const sched::Schedule& schedule) {
  std::string out = sched::to_csv(schedule);
  std::replace(out.begin(), out.end(), ',', ' ');
  return out;
}

int show(const ScheduleArguments& arguments, std::ostream& out) {
  sched::Schedule schedule = load(arguments, {.costs = {}, .layers = {}});
  if (arguments.lowered && !schedule.lowered)
    schedule = sched::lower(schedule);
  const std::string format = arguments.format.empty() ? "grid" : arguments.format;
  std::string content;
  if (format == "csv")
    content = sched::to_csv(schedule);
  else if (format == "json")
    content = sched::to_json(schedule);
  else if (format == "grid")
    content =
        arguments.lowered
            ? rows_of(schedule)
            : sched::draw_grid(
                  schedule, arguments.output.empty() && ::isatty(STDOUT_FILENO) == 1);
  else {
    const auto result = sched::simulate(schedule, {.costs = {}, .details = true});
    content = format == "svg" ? sched::draw_svg(schedule, result)
                              : sched::to_trace(schedule, result);
  }
  if (arguments.output.empty())
    out << content;
  else
    write_file(arguments.output, content);
  return 0;
}

sched::Buffers parse_buffers(const std::string& word) {
  if (word == "unbounded")
    return {};
  if (word == "rendezvous")
    return {.messages = 0};
  const auto messages = parse_number<int>(word);
  if (!messages || *messages < 0)
    throw InvalidArgument(text(
        "[cli] wanted --buffers to be a number, unbounded or rendezvous, got ",
        in_quotes(word)));
  return {.messages = *messages};
}

int check(const ScheduleArguments& arguments, std::ostream& out) {
  sched::Schedule schedule =
      sched::parse_csv(read_file(arguments.what), arguments.what);
  sched::validate(schedule);
  if (arguments.lowered && !schedule.lowered)
    throw InvalidArgument(text(
        "[cli] wanted a lowered schedule, got ",
        in_quotes(arguments.what),
        " without sends and receives; leave out --lowered"));
  const bool was_lowered = schedule.lowered;
  try {
    if (!was_lowered)
      schedule = sched::lower(schedule);
  } catch (const InvalidArgument& error) {
    // It is complete, so this is a circle, as prove() would find it.
    out << "locks up: " << error.what() << "\n";
    return kLocksUp;
  }
  const sched::Buffers buffers = parse_buffers(arguments.buffers);
  const sched::Proof proof = sched::prove(schedule, buffers);
  if (!proof.holds) {
    out << "locks up: " << proof.why;
    if (proof.buffers_needed)
      out << "; with channels that hold " << counted(*proof.buffers_needed, "message")
          << " it does not";
    out << "\n";
    return kLocksUp;
  }
  int64_t in_flight = 0, live = 0;
  for (const auto& use : proof.channels)
    in_flight = std::max(in_flight, use.most_in_flight);
  for (const int64_t peak : proof.peak_activations)
    live = std::max(live, peak);
  out << "ok: " << counted(schedule.ranks(), "rank") << ", "
      << counted(schedule.stages(), "stage") << ", "
      << counted(schedule.microbatches, "microbatch") << "; "
      << (was_lowered ? "" : "lowered, it ") << "cannot lock up with "
      << sched::to_string(buffers) << "; at most " << counted(in_flight, "message")
      << " on a channel, " << counted(live, "live activation") << " on a rank\n";
  return 0;
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
      {"peak_bytes", result.peak_bytes}};
}

int simulate(const ScheduleArguments& arguments, std::ostream& out) {
  const sched::CostFile costs = costs_of(arguments);
  const sched::Schedule schedule = load(arguments, costs);
  const auto result = sched::simulate(
      schedule, {.costs = sched::stage_costs(costs, schedule.rank_of_stage)});
  if (arguments.format == "json") {
    out << simulation_json(schedule, result).dump(2) << "\n";
    return 0;
  }
  out << schedule.name << ": time " << result.makespan << ", of which "
      << result.wall_bubble << " bubble ("
      << std::round(1000 * result.wall_bubble / std::max(result.makespan, 1e-300)) / 10
      << " %); within a rank's own span " << result.span_bubble << "\n"
      << "rank  busy  idle  live activations  bytes\n";
  for (size_t rank = 0; rank < result.busy.size(); ++rank)
    out << std::left << std::setw(6) << rank << result.busy[rank] << "  "
        << result.idle[rank] << "  " << result.peak_activations[rank] << "  "
        << result.peak_bytes[rank] << "\n";
  return 0;
}

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

int plan(const ScheduleArguments& arguments, std::ostream& out) {
  sched::PlanRequest request{.costs = costs_of(arguments), .ranks = arguments.ranks};
  if (arguments.microbatches != 0)
    request.microbatches = {arguments.microbatches};
  request.memory_limit = arguments.memory_limit.value_or(request.memory_limit);
  const auto entries = sched::plan(request);
  if (arguments.format == "json") {
    out << plan_json(entries).dump(2) << "\n";
    return 0;
  }
  out << sched::explain(entries, request.memory_limit) << "\n\n"
      << "time/microbatch  bubble  bytes        schedule\n";
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
  return 0;
}

}  // namespace

int run_schedule(
    const std::string& word,
    const ScheduleArguments& arguments,
    std::ostream& out,
    std::ostream& err) try {
  if (word == "list")
    return list_schedules(arguments, out);
  if (word == "show")
    return show(arguments, out);
  if (word == "check")
    return check(arguments, out);
  if (word == "simulate")
    return simulate(arguments, out);
  return plan(arguments, out);
} catch (const std::bad_alloc&) {
  err << "trireme: [cli] wanted memory for this schedule, got none; make it smaller\n";
  return kWrongUsage;
} catch (const InvalidArgument& error) {
  err << "trireme: " << error.what() << "\n";
  return kWrongUsage;
}

}  // namespace trireme::cli
