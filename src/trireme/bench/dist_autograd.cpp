#include "trireme/bench/dist_autograd.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "trireme/bench/peer.h"
#include "trireme/bench/side.h"
#include "trireme/core/error.h"
#include "trireme/net/job_key.h"
#include "trireme/net/tls.h"

namespace trireme::bench {
namespace {

// The slowest rank of every repetition, of those that measure.
std::vector<double> gradient_times(const Rows& rows) {
  Rows measured;
  std::copy_if(
      rows.begin(),
      rows.end(),
      std::back_inserter(measured),
      [](const std::vector<double>& row) { return !row.empty(); });
  std::vector<double> times = slowest(measured);
  for (double& time : times)
    time *= 1e6;
  return times;
}

// The processes of either side, which are as many as the last case took.
class GradientSides {
 public:
  explicit GradientSides(const std::filesystem::path& program)
      : ours_command_{program.string(), "bench", "--worker", "dist-autograd"},
        peer_(find_peer("dist_autograd", Environment::of_process(), program)),
        missing_(peer_.missing) {}

  const std::string& no_peer() const { return missing_; }

  Record measure(const GradientCase& one, const RoundPlan& plan) {
    // Idle processes of other cases would still take memory.
    if (std::exchange(ranks_, one.ranks) != one.ranks)
      start();
    Record record{.bench = "dist-autograd", .name = one.name, .goal = one.goal};
    const std::string line = to_line(one.job);
    measure_in_turn(
        record,
        [&] { return gradient_times(ours_->ask(line, kAnswerLimit)); },
        [&] { return ask_torch(line); },
        plan);
    // Half a peer would be compared with the whole of ours.
    if (!missing_.empty())
      record.peer = {};
    return record;
  }

 private:
  void start() {
    ours_.reset();
    torch_.reset();
    Environment::Variables variables = side_variables();
    variables["TRIREME_JOB_KEY"] = net::JobKey::random().text();
    ours_ = std::make_unique<WorkerTeam>(
        "ours", pinned(rank_starts(ours_command_, ranks_, variables)));
  }

  std::vector<double> ask_torch(const std::string& line) {
    if (!missing_.empty())
      return {};
    try {
      if (!torch_)
        torch_ = std::make_unique<WorkerTeam>(
            "torch", pinned(rank_starts(peer_.command, ranks_, side_variables())));
      return gradient_times(torch_->ask(line, kAnswerLimit));
    } catch (const Error& error) {
      missing_ = peer_failed(error.what());
      torch_.reset();
      return {};
    }
  }

  std::vector<std::string> ours_command_;
  PeerCommand peer_;
  std::string missing_;
  int ranks_ = 0;
  std::unique_ptr<WorkerTeam> ours_, torch_;
};

}  // namespace

BenchReport bench_dist_autograd(const MeasureOptions& options) {
  const auto cases = choose_cases(
      gradient_cases(net::has_tls()), options.only, [](const GradientCase& one) {
        return one.name;
      });
  GradientSides sides(options.program);
  BenchReport report =
      measure_cases("dist-autograd", cases, [&](const GradientCase& one) {
        return sides.measure(one, plan_rounds(options));
      });
  report.no_peer = sides.no_peer();
  return report;
}

}  // namespace trireme::bench
