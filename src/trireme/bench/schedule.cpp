#include "trireme/bench/schedule.h"

#include <chrono>
#include <iostream>
#include <memory>

#include "trireme/bench/peer.h"
#include "trireme/bench/schedule_auto.h"
#include "trireme/bench/schedule_worker.h"
#include "trireme/bench/workers.h"
#include "trireme/core/deadline.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"

namespace trireme::bench {
namespace {

constexpr int kDrawnCosts = 20;

std::string size_text(const ScheduleJob& job) {
  return text(job.ranks, " ranks x ", job.stages_per_rank, " x ", job.microbatches);
}

WorkerTeam start(const char* name, const std::vector<std::string>& command) {
  return WorkerTeam(
      name, {WorkerStart{.command = command, .variables = {{"OMP_NUM_THREADS", "1"}}}});
}

ScheduleCost ask(WorkerTeam& team, const ScheduleJob& job) {
  const Rows rows = team.ask(to_line(job), kAnswerLimit);
  return {.seconds = rows.at(0).at(0), .actions = static_cast<int64_t>(rows[0].at(1))};
}

// Our worker, which lives through all cases but for those that look at its memory.
class Ours {
 public:
  explicit Ours(const std::filesystem::path& program)
      : command_{program.string(), "bench", "--worker", "schedule"} {}

  ScheduleCost cost(const ScheduleJob& job) {
    if (!team_)
      team_.reset(new WorkerTeam(start("ours", command_)));
    return ask(*team_, job);
  }

  /// The most that a worker of its own has in memory, in KiB.
  double memory(const ScheduleJob& job) const {
    WorkerTeam team = start("ours", command_);
    ask(team, job);
    return static_cast<double>(peak_memory_kib(team.pid(0)));
  }

 private:
  std::vector<std::string> command_;
  std::unique_ptr<WorkerTeam> team_;
};

// torch's, started when it is first needed.
class Torch {
 public:
  explicit Torch(const std::filesystem::path& program)
      : peer_(find_peer("schedule", Environment::of_process(), program)) {}

  /// Why there is none; empty while there is.
  const std::string& missing() const { return peer_.missing; }

  std::vector<double> times(const ScheduleJob& job) {
    if (!peer_.missing.empty())
      return {};
    try {
      if (!team_)
        team_.reset(new WorkerTeam(start("torch", peer_.command)));
      return {ask(*team_, job).seconds * 1e6};
    } catch (const Error& error) {
      peer_.missing = peer_failed(error.what());
      team_.reset();
      return {};
    }
  }

 private:
  PeerCommand peer_;
  std::unique_ptr<WorkerTeam> team_;
};

struct ScheduleCase {
  Record record;
  Round ours;
  /// Another size of ours, in turn with it.
  Round other;
  /// torch, which takes so long that once is enough.
  Round torch;
  /// How many it has to have; 0: as usual.
  int rounds = 0;
};

void add_auto_cases(std::vector<ScheduleCase>& cases);

std::vector<ScheduleCase> schedule_cases(Ours& ours, Torch& torch, bool quick) {
  const ScheduleJob beside = quick ? ScheduleJob{16, 4, 128} : ScheduleJob{64, 4, 512};
  const ScheduleJob large{4096, 2, 512};
  const ScheduleJob small{64, 2, 512};
  const auto time = [&ours](const ScheduleJob& job) -> Round {
    return [&ours, job] { return std::vector{ours.cost(job).seconds * 1e6}; };
  };
  const auto per_million = [&ours](const ScheduleJob& job) -> Round {
    return [&ours, job] {
      const ScheduleCost cost = ours.cost(job);
      return std::vector{cost.seconds * 1e12 / static_cast<double>(cost.actions)};
    };
  };
  std::vector<ScheduleCase> cases{
      {.record = {.name = text("make and check, ", size_text(beside)), .goal = 50},
       .ours = time(beside),
       .torch = [&torch, beside] { return torch.times(beside); }},
      {.record = {.name = text("make and check, ", size_text(large)), .limit = 30e6},
       .ours = time(large)},
      {.record =
           {.name = text("memory, ", size_text(large)),
            .limit = 4.0 * 1024 * 1024,
            .unit = "KiB"},
       .ours = [&ours, large] { return std::vector{ours.memory(large)}; }}};
  // At most 2.5 times the time of the smallest, for each action.
  for (const int ranks : {256, 1024, 4096}) {
    if (quick && ranks == large.ranks)
      break;
    const ScheduleJob job{ranks, small.stages_per_rank, small.microbatches};
    cases.push_back(
        {.record =
             {.name = text("a million actions, ", ranks, " ranks; peer: ", small.ranks),
              .goal = 0.4},
         .ours = per_million(job),
         .other = per_million(small)});
  }
  add_auto_cases(cases);
  return cases;
}

// Each round has the costs of the next of twenty seeds; the first call is not counted.
Round drawn_rounds(int ranks, double (*time)(int, const sched::CostFile&)) {
  return [ranks, time, seed = uint64_t{kDrawnCosts - 1}]() mutable {
    seed = (seed + 1) % kDrawnCosts;
    return std::vector{time(ranks, drawn_costs(ranks, seed))};
  };
}

Round time_of_auto(int ranks) {
  return [ranks, seed = uint64_t{0}]() mutable {
    const sched::CostFile costs = drawn_costs(ranks, seed++ % kDrawnCosts);
    const auto start = std::chrono::steady_clock::now();
    auto_time(ranks, costs);
    return std::vector{std::chrono::duration<double, std::micro>(
                           std::chrono::steady_clock::now() - start)
                           .count()};
  };
}

// What Auto gains, in units of the drawn costs, and what it takes.
void add_auto_cases(std::vector<ScheduleCase>& cases) {
  for (const int ranks : {4, 8}) {
    cases.push_back(
        {.record =
             {.name = text("Auto on drawn costs, ", ranks, " ranks; peer: best named"),
              .goal = 1.02},
         .ours = drawn_rounds(ranks, auto_time),
         .other = drawn_rounds(ranks, best_named_time),
         .rounds = kDrawnCosts});
    cases.push_back(
        {.record =
             {.name = text("making Auto for drawn costs, ", ranks, " ranks"),
              .limit = 2e6},
         .ours = time_of_auto(ranks)});
  }
}

RoundPlan plan_for(const ScheduleCase& one, const MeasureOptions& options) {
  RoundPlan plan = plan_rounds(options);
  if (options.rounds > 0)
    return plan;
  // Seconds each.
  if (one.rounds > 0)
    plan = {.rounds = one.rounds, .budget = Deadline::kLongest};
  else if (one.record.limit)
    plan.rounds = options.quick ? 1 : 3;
  else if (one.other)
    plan.rounds = options.quick ? 1 : 5;
  return plan;
}

void measure(ScheduleCase& one, const MeasureOptions& options) {
  const RoundPlan plan = plan_for(one, options);
  measure_in_turn(one.record, one.ours, one.other, plan);
  if (!one.torch)
    return;
  for (int round = 0; round < std::max(1, options.rounds); ++round)
    one.record.peer.add_round(one.torch());
  // Ours before and after: if the machine has become busier, that shows.
  measure_in_turn(one.record, one.ours, {}, plan);
}

}  // namespace

std::vector<Record> schedule_records(bool quick) {
  Ours ours({});
  Torch torch({});  // nothing starts before it is asked
  std::vector<Record> records;
  for (ScheduleCase& one : schedule_cases(ours, torch, quick))
    records.push_back(std::move(one.record));
  return records;
}

BenchReport bench_schedule(const MeasureOptions& options) {
  Ours ours(options.program);
  Torch torch(options.program);
  const std::string machine = to_string(describe_machine());
  const double load = load_average();
  BenchReport report;
  for (ScheduleCase& one : choose_cases(
           schedule_cases(ours, torch, options.quick),
           options.only,
           [](const ScheduleCase& any) { return any.record.name; })) {
    std::cerr << "bench schedule: " << one.record.name << std::endl;
    measure(one, options);
    one.record.bench = "schedule";
    one.record.machine = machine;
    one.record.load = load;
    if (one.torch && one.record.peer.rounds.empty())
      report.no_peer = torch.missing();
    report.records.push_back(std::move(one.record));
  }
  return report;
}

}  // namespace trireme::bench
