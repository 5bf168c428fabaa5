#include "trireme/bench/launch.h"

#include <algorithm>
#include <iostream>

#include "trireme/bench/launch_sides.h"
#include "trireme/bench/peer.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"

namespace trireme::bench {
namespace {

constexpr int kRanks = 4;
constexpr int kManyRanks = 64;

// One side in one round; empty: there is no such side.
struct LaunchCase {
  Record record;
  Round ours;
  Round peer;
};

// The share of a launcher is what a job takes longer than without one. On a busy
// machine it can come out below zero; what is less than this cannot be told.
double share(const LaunchTimes& with, const LaunchTimes& without) {
  constexpr double kLeast = 100;  // microseconds
  return std::max(kLeast, with.total - without.total);
}

double memory_limit(int ranks) {
  return 1024.0 * (10 + ranks);  // KiB: 10 MiB, and 1 MiB a rank
}

std::vector<LaunchCase> launch_cases(
    const std::filesystem::path& program, const std::vector<std::string>& python) {
  const auto ours = [program] {
    return time_command(launcher_command(program, kRanks));
  };
  const auto torchrun = [program, python] {
    return time_command(torchrun_command(python, program, kRanks));
  };
  const auto by_hand = [program] { return time_by_hand(program, kRanks); };
  const auto memory = [program](int ranks) -> Round {
    return [=] { return std::vector{launcher_memory(program, ranks)}; };
  };
  return {
      {.record = {.name = text("first barrier, ", kRanks, " ranks"), .goal = 3.5},
       .ours = [=] { return std::vector{ours().barrier}; },
       .peer = [=] { return std::vector{torchrun().barrier}; }},
      {.record = {.name = text("launcher's share, ", kRanks, " ranks"), .goal = 10},
       .ours = [=] { return std::vector{share(ours(), by_hand())}; },
       .peer = [=] { return std::vector{share(torchrun(), by_hand())}; }},
      {.record =
           {.name = text("start, barrier and end, ", kManyRanks, " ranks"),
            .limit = 30e6},
       .ours =
           [program] {
             return std::vector{
                 time_command(launcher_command(program, kManyRanks)).total};
           },
       .peer = {}},
      {.record =
           {.name = text("launcher's memory, ", kRanks, " ranks"),
            .limit = memory_limit(kRanks),
            .unit = "KiB"},
       .ours = memory(kRanks),
       .peer = {}},
      {.record =
           {.name = text("launcher's memory, ", kManyRanks, " ranks"),
            .limit = memory_limit(kManyRanks),
            .unit = "KiB"},
       .ours = memory(kManyRanks),
       .peer = {}}};
}

// Without the peer the benchmark goes on, and says so.
Round guarded(const Round& peer, std::string& missing) {
  if (!peer)
    return {};
  return [&peer, &missing]() -> std::vector<double> {
    if (!missing.empty())
      return {};
    try {
      return peer();
    } catch (const Error& error) {
      missing = peer_failed(error.what());
      return {};
    }
  };
}

RoundPlan plan_for(const LaunchCase& one, const MeasureOptions& options) {
  RoundPlan plan = plan_rounds(options);
  if (options.rounds > 0)
    return plan;
  // One start takes seconds. Without a peer there is nothing to interleave.
  if (!one.peer)
    plan.rounds = options.quick ? 1 : 3;
  else if (!options.quick)
    plan.budget = std::chrono::seconds(40);
  return plan;
}

}  // namespace

std::vector<Record> launch_records() {
  std::vector<Record> records;
  for (LaunchCase& one : launch_cases({}, {}))
    records.push_back(std::move(one.record));
  return records;
}

BenchReport bench_launch(const MeasureOptions& options) {
  PeerCommand python = find_python(Environment::of_process());
  const std::string machine = to_string(describe_machine());
  const double load = load_average();
  BenchReport report;
  for (LaunchCase& one : choose_cases(
           launch_cases(options.program, python.command),
           options.only,
           [](const LaunchCase& any) { return any.record.name; })) {
    std::cerr << "bench launch: " << one.record.name << std::endl;
    measure_in_turn(
        one.record,
        one.ours,
        guarded(one.peer, python.missing),
        plan_for(one, options));
    one.record.bench = "launch";
    one.record.machine = machine;
    one.record.load = load;
    if (one.peer && one.record.peer.rounds.empty())
      report.no_peer = python.missing;
    report.records.push_back(std::move(one.record));
  }
  return report;
}

int run_launch_worker() {
  const comm::Group world = comm::init();
  comm::barrier(world);
  if (world.rank() == 0)
    std::cout << kBarrierMark
              << std::chrono::nanoseconds(
                     std::chrono::steady_clock::now().time_since_epoch())
                     .count()
              << std::endl;
  return 0;
}

}  // namespace trireme::bench
