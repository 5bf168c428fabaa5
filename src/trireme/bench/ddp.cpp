#include "trireme/bench/ddp.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "trireme/bench/peer.h"
#include "trireme/bench/workers.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

/// The ranks of ours, or of torch's; started when they are first needed.
class Side {
 public:
  Side(std::string name, std::vector<std::string> command, std::string missing = {})
      : name_(std::move(name)),
        command_(std::move(command)),
        missing_(std::move(missing)) {}

  const std::string& missing() const { return missing_; }
  void give_up(const std::string& why) {
    missing_ = peer_failed(why);
    team_.reset();
  }
  void stop() { team_.reset(); }

  /// The figure of one round.
  std::vector<double> measure(const DdpCase& one) {
    if (!team_ || ranks_ != one.ranks)
      start(one.ranks);
    const double added =
        added_time(slowest(team_->ask(to_line(one.job), kAnswerLimit)));
    return {one.per_parameter ? added / (2 * one.job.layers) : added};
  }

 private:
  void start(int ranks) {
    team_.reset();
    ranks_ = ranks;
    Environment::Variables variables{
        {"OMP_NUM_THREADS", "1"},
        {"TRIREME_BACKEND", "shm"},
        {"TRIREME_FLIGHT_DIR", ""},
        // Both sides keep the memory that a step gives back. Otherwise the model
        // without data parallelism pays for fresh pages in every step, the one with its
        // flat buffers does not, and the difference says nothing.
        {"MALLOC_MMAP_MAX_", "0"},
        {"MALLOC_TRIM_THRESHOLD_", text(int64_t{1} << 40)}};
    // Otherwise gloo asks for the address of the host's name, which not every host has.
    if (!Environment::of_process().has("GLOO_SOCKET_IFNAME"))
      variables["GLOO_SOCKET_IFNAME"] = "lo";
    team_ =
        std::make_unique<WorkerTeam>(name_, rank_starts(command_, ranks, variables));
  }

  std::string name_;
  std::vector<std::string> command_;
  std::string missing_;
  int ranks_ = 0;
  std::unique_ptr<WorkerTeam> team_;
};

/// The middle of the rounds as the only one: a limit goes by the slowest round, and the
/// slowest difference of two times says more about the machine than about us.
void keep_median(Samples& samples) {
  samples.raw = samples.rounds;
  samples.rounds = {quartiles(samples.rounds).median};
}

Record measure_case(const DdpCase& one, Side& ours, Side& torch, RoundPlan plan) {
  Record record{.bench = "ddp", .name = one.name, .limit = one.limit, .goal = one.goal};
  const Round peer = [&]() -> std::vector<double> {
    if (!torch.missing().empty())
      return {};
    try {
      return torch.measure(one);
    } catch (const Error& error) {
      torch.give_up(error.what());
      return {};
    }
  };
  measure_in_turn(
      record, [&] { return ours.measure(one); }, peer, plan);
  // Half a peer would be compared with the whole of ours.
  if (!torch.missing().empty())
    record.peer = {};
  if (one.limit)
    keep_median(record.ours);
  return record;
}

std::vector<DdpCase> chosen_cases(const MeasureOptions& options) {
  std::vector<DdpCase> cases = ddp_cases();
  if (options.quick && options.only.empty())
    std::erase_if(cases, [](const DdpCase& one) { return one.slow; });
  return choose_cases(
      std::move(cases), options.only, [](const DdpCase& one) { return one.name; });
}

DdpCase make_case(int layers, int64_t width, int ranks, int repetitions) {
  return {
      .name = text(layers, " linears of ", width, ", ", ranks, " ranks"),
      .ranks = ranks,
      .job = {
          .layers = layers, .width = width, .warm_up = 2, .repetitions = repetitions}};
}

}  // namespace

std::vector<DdpCase> ddp_cases() {
  std::vector<DdpCase> cases;
  cases.push_back(make_case(64, 64, 2, 30));
  cases.back().goal = 8;
  cases.push_back(make_case(24, 1024, 2, 5));
  cases.back().goal = 2;
  for (const int parameters : {8, 64, 256, 1024}) {
    cases.push_back(make_case(parameters / 2, 16, 2, 4000 / parameters));
    cases.back().name = text(parameters, " parameters of linears of 16, 2 ranks");
    cases.back().slow = true;
  }
  cases.push_back(make_case(100, 16, 1, 30));
  cases.back().name = "world of one, 200 parameters of linears of 16, one of them";
  cases.back().per_parameter = true;
  cases.back().limit = 0.7;
  cases.push_back(make_case(64, 64, 4, 20));
  cases.back().slow = true;
  cases.push_back(make_case(64, 64, 8, 10));
  cases.back().goal = 1;
  return cases;
}

double added_time(const std::vector<double>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  const double with = quartiles({times.begin(), middle}).median;
  const double without = quartiles({middle, times.end()}).median;
  return std::max(kLeastAdded, 1e6 * (with - without));
}

BenchReport bench_ddp(const MeasureOptions& options) {
  const std::vector<DdpCase> cases = chosen_cases(options);
  const PeerCommand peer = find_peer("ddp", Environment::of_process(), options.program);
  Side ours("ours", {options.program.string(), "bench", "--worker", "ddp"});
  Side torch("torch", peer.command, peer.missing);
  int ranks = 0;
  BenchReport report = measure_cases("ddp", cases, [&](const DdpCase& one) {
    // Idle processes of other cases would still take memory.
    if (std::exchange(ranks, one.ranks) != one.ranks) {
      ours.stop();
      torch.stop();
    }
    return measure_case(one, ours, torch, plan_rounds(options));
  });
  report.no_peer = torch.missing();
  return report;
}

}  // namespace trireme::bench
