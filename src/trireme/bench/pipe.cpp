#include "trireme/bench/pipe.h"

#include <algorithm>
#include <iostream>

#include "trireme/bench/executor.h"
#include "trireme/bench/peer.h"
#include "trireme/bench/side.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/simulate.h"

namespace trireme::bench {
namespace {

constexpr int kPipeRanks = 2;
constexpr int kWideRanks = 4;
// Ranks need cores of their own, and memory bandwidth.
constexpr int kWideCores = 16;
const std::vector<std::string> kSchedules{
    "GPipe",
    "1F1B",
    "Interleaved1F1B",
    "LoopedBFS",
    "InterleavedZeroBubble",
    "ZBVZeroBubble",
    "DualPipeV"};
const PipeModel kBlocks{};
const PipeModel kWide{.width = 512, .sequence = 256, .microbatches = 16};
const PipeModel kLinears{
    .layer = "linear", .width = 32, .sequence = 4, .microbatches = 32};
const PipeModel kNorms{.layer = "norm", .width = 64, .sequence = 16, .microbatches = 1};

/// The ranks of ours, or of torch's.
class Side : public RankSide {
 public:
  using RankSide::RankSide;

  Rows ask(const PipeJob& job) { return RankSide::ask(to_line(job), kAnswerLimit); }
  /// In microseconds.
  std::vector<double> times(const PipeJob& job) {
    std::vector<double> times = slowest(ask(job));
    for (double& time : times)
      time *= 1e6;
    return times;
  }
};

struct Sides {
  Side ours;
  Side torch;

  /// A round of two things that our ranks do in turn.
  void measure_both(const PipeJob& job, Record& record) {
    const std::vector<double> times = ours.times(job);
    std::vector<double> sides[2];
    for (size_t i = 0; i < times.size(); ++i)
      sides[i % 2].push_back(times[i]);
    record.ours.add_round(sides[0]);
    record.peer.add_round(sides[1]);
  }

  void measure(const PipeJob& job, Samples& samples) {
    samples.add_round(ours.times(job));
  }
  void measure_torch(const PipeJob& job, Samples& samples) {
    if (!torch.missing().empty())
      return;
    try {
      samples.add_round(torch.times(job));
    } catch (const Error& error) {
      torch.give_up(error.what());
    }
  }
};

double smallest(const Samples& samples) {
  return *std::min_element(samples.raw.begin(), samples.raw.end());
}

Samples one_value(double value) {
  Samples samples;
  samples.add_round({value});
  return samples;
}

double median_round(const Samples& samples) {
  return quartiles(samples.rounds).median;
}

/// The schedule for which `value` is least, of those that were measured.
std::string best(
    const std::map<std::string, Samples>& all, double (*value)(const Samples&)) {
  std::string name;
  for (const auto& [schedule, samples] : all)
    if (!schedule.empty() && !samples.rounds.empty() &&
        (name.empty() || value(samples) < value(all.at(name))))
      name = schedule;
  return name;
}

/// `most` times one process's time over the ranks, by the least of all steps.
Record beside_share(
    const PipeTimes& times,
    const std::string& schedule,
    const std::string& model,
    int ranks,
    double most) {
  return {
      .name = text(
          model,
          ", ",
          schedule,
          " beside ",
          ranks == 2 ? "half" : "a quarter",
          " of one process"),
      .ours = one_value(smallest(times.ours.at(schedule))),
      .peer = one_value(smallest(times.ours.at("")) / ranks),
      .goal = 1 / most};
}

/// What timing the actions takes of the quickest step, in percent.
Record timing_share(const PipeTimes& times, const std::string& schedule) {
  Record record{
      .name = text("linears, ", schedule, ": share of timing the actions"),
      .limit = 1,
      .unit = "%"};
  const double step = smallest(times.ours.at(schedule));
  if (const auto found = times.timing.find(schedule); found != times.timing.end())
    for (const double time : found->second.rounds)
      record.ours.add_round({100 * time / step});
  return record;
}

sched::Costs parse_costs_row(const std::vector<double>& row) {
  sched::Costs costs;
  costs.stages.clear();
  for (size_t i = 0; i + kCostsPerStage <= row.size(); i += kCostsPerStage)
    costs.stages.push_back(
        {.forward = row[i],
         .input_grad = row[i + 1],
         .weight_grad = row[i + 2],
         .backward = row[i + 3]});
  costs.link.latency = row.back();
  return costs;
}

/// Profiles the stages in processes of their own, and simulates the schedules.
std::map<std::string, double> predict(Side& ours, const PipeModel& model) {
  std::map<std::string, double> predicted;
  for (const std::string profiled : {"1F1B", "Interleaved1F1B", "DualPipeV"}) {
    const sched::ScheduleInfo& kind = sched::find_schedule(profiled);
    const Rows rows = ours.ask(
        {.op = "profile", .model = model, .schedule = profiled, .repetitions = 3});
    const sched::Costs costs = parse_costs_row(rows.at(0));
    for (const std::string& name : kSchedules) {
      const sched::ScheduleInfo& info = sched::find_schedule(name);
      if (info.map == kind.map && info.usual_stages == kind.usual_stages)
        predicted[name] =
            1e6 *
            sched::simulate(
                sched::generate(
                    name, {.ranks = kPipeRanks, .microbatches = model.microbatches}),
                {.costs = costs})
                .makespan;
    }
  }
  ours.stop();
  return predicted;
}

PipeTimes measure_model(
    Sides& sides,
    const PipeModel& model,
    const std::vector<std::string>& schedules,
    int rounds,
    int steps,
    bool with_prediction) {
  PipeTimes times;
  if (with_prediction)
    times.predicted = predict(sides.ours, model);
  std::vector<std::string> all = schedules;
  all.emplace_back();
  for (int round = 0; round < rounds; ++round)
    for (const std::string& schedule : all) {
      const PipeJob job{
          .model = model, .schedule = schedule, .warm_up = 2, .repetitions = steps};
      std::cerr << "bench pipe: " << model.layer << " " << schedule << ", round "
                << round + 1 << "/" << rounds << std::endl;
      sides.measure(job, times.ours[schedule]);
      if (!schedule.empty())
        sides.measure_torch(job, times.torch[schedule]);
    }
  return times;
}

/// Backwards of ours in two halves beside ours at once, and beside torch's engine.
std::vector<Record> measure_backwards(Sides& sides, int rounds) {
  std::vector<Record> records = backward_records();
  PipeModel block = kBlocks;
  block.layers = 1;
  const PipeJob jobs[] = {
      {.op = "split_fused", .model = block},
      {.op = "split_fused", .model = kNorms},
      {.op = "split_engine", .model = kNorms},
      {.op = "overlap", .model = block}};
  for (size_t i = 0; i < records.size(); ++i) {
    std::cerr << "bench pipe: " << records[i].name << std::endl;
    for (int round = 0; round < rounds; ++round) {
      PipeJob job = jobs[i];
      job.repetitions = job.model.layer == "norm" ? 200 : 20;
      job.warm_up = 5;
      sides.measure_both(job, records[i]);
    }
  }
  return records;
}

void append(std::vector<Record>& all, std::vector<Record> more) {
  for (Record& record : more)
    all.push_back(std::move(record));
}

}  // namespace

std::vector<Record> backward_records() {
  return {
      {.name = "backward, block: I and W beside our own B", .goal = 1 / 1.05},
      {.name = "backward, 8 x linear, norm, GELU: I and W beside our own B",
       .goal = 1 / 1.05},
      {.name = "backward, 8 x linear, norm, GELU: I and W beside torch's B",
       .goal = 1 / 0.85},
      {.name = "backward, block: with a forward at once beside in turn", .goal = 1.4}};
}

std::vector<Record> judge_blocks(const PipeTimes& times) {
  std::vector<Record> records{
      beside_share(times, best(times.ours, smallest), "blocks", kPipeRanks, 1.07)};
  const std::string ours = best(times.ours, median_round);
  Record beside{
      .name = text("blocks, ", ours, " beside torch's best"),
      .ours = times.ours.at(ours),
      .goal = 1.1};
  if (const std::string theirs = best(times.torch, median_round);
      !theirs.empty() && !times.torch.at(theirs).rounds.empty()) {
    beside.name += text(" (", theirs, ")");
    beside.peer = times.torch.at(theirs);
  }
  records.push_back(std::move(beside));
  for (const auto& [schedule, predicted] : times.predicted)
    records.push_back(
        {.name = text("blocks, ", schedule, " beside the simulator"),
         .ours = one_value(smallest(times.ours.at(schedule))),
         .peer = one_value(predicted),
         .goal = 1 / 1.06});
  return records;
}

std::vector<Record> judge_wide(const PipeTimes& times) {
  return {
      beside_share(times, best(times.ours, smallest), "wide blocks", kWideRanks, 1.10)};
}

std::vector<Record> judge_linears(const PipeTimes& times) {
  std::vector<Record> records;
  for (const auto& [schedule, goal] :
       {std::pair{"1F1B", 6.0}, std::pair{"Interleaved1F1B", 25.0}}) {
    records.push_back(
        {.name = text("linears, ", schedule, " beside torch's"),
         .ours = times.ours.at(schedule),
         .peer = times.torch.at(schedule),
         .goal = goal});
    records.push_back(beside_share(times, schedule, "linears", kPipeRanks, 1.3));
    records.push_back(timing_share(times, schedule));
  }
  return records;
}

namespace {

/// The small layers, and what it takes to time their actions.
PipeTimes measure_linears(Sides& sides, int rounds) {
  const std::vector<std::string> schedules{"1F1B", "Interleaved1F1B"};
  PipeTimes times = measure_model(sides, kLinears, schedules, 4 * rounds, 20, false);
  for (int round = 0; round < 2 * rounds; ++round)
    for (const std::string& schedule : schedules)
      sides.measure(
          {.op = "timing",
           .model = kLinears,
           .schedule = schedule,
           .warm_up = 5,
           .repetitions = 50},
          times.timing[schedule]);
  return times;
}

std::vector<Record> measure_graphs(Sides& sides, int rounds) {
  return measure_executor(
      [&](const GraphCase& one, Record& record) {
        sides.measure_both(
            {.op = "graph",
             .model = {.layer = one.kind},
             .warm_up = 3,
             .repetitions = one.repetitions},
            record);
      },
      rounds);
}

/// Whether a part is to run: its name alone spares the other parts; the rest is chosen
/// by what came out.
bool is_wanted(const std::string& only, const std::string& part) {
  const std::vector<std::string> parts{
      "backward", "executor", "blocks", "linears", "wide"};
  return only == part || std::find(parts.begin(), parts.end(), only) == parts.end();
}

}  // namespace

BenchReport bench_pipe(const MeasureOptions& options) {
  const PeerCommand peer =
      find_peer("pipe", Environment::of_process(), options.program);
  const std::vector<std::string> worker{
      options.program.string(), "bench", "--worker", "pipe"};
  Sides sides{
      .ours = {"ours", kPipeRanks, worker},
      .torch = {"torch", kPipeRanks, peer.command, peer.missing}};
  const int rounds = options.rounds > 0 ? options.rounds : options.quick ? 1 : 3;
  const std::string machine = to_string(describe_machine());
  const double load = load_average();
  const auto wanted = [&](const char* part) { return is_wanted(options.only, part); };
  BenchReport report;
  if (wanted("backward"))
    append(report.records, measure_backwards(sides, 3 * rounds));
  if (wanted("executor"))
    append(report.records, measure_graphs(sides, 7 * rounds));
  if (wanted("blocks"))
    append(
        report.records,
        judge_blocks(measure_model(sides, kBlocks, kSchedules, rounds, 3, true)));
  if (wanted("linears"))
    append(report.records, judge_linears(measure_linears(sides, rounds)));
  if (wanted("wide") && available_cores() >= kWideCores) {
    Sides wide{
        .ours = {"ours", kWideRanks, worker},
        .torch = {"torch", kWideRanks, {}, "not asked"}};
    append(
        report.records,
        judge_wide(measure_model(
            wide,
            kWide,
            {"1F1B", "Interleaved1F1B", "ZBVZeroBubble", "DualPipeV"},
            rounds,
            3,
            false)));
  }
  report.records =
      choose_cases(std::move(report.records), options.only, [](const Record& record) {
        return record.name;
      });
  for (Record& record : report.records) {
    record.bench = "pipe";
    record.machine = machine;
    record.load = load;
    record.ours.finish();
    record.peer.finish();
  }
  report.no_peer = sides.torch.missing();
  return report;
}

}  // namespace trireme::bench
