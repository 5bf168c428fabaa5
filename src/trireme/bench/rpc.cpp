#include "trireme/bench/rpc.h"

#include "trireme/bench/peer.h"
#include "trireme/bench/side.h"
#include "trireme/core/error.h"
#include "trireme/net/job_key.h"
#include "trireme/net/tls.h"

namespace trireme::bench {
namespace {

// The two processes of either side; a crowd calls once, however many figures it gives.
class RpcSides {
 public:
  explicit RpcSides(const std::filesystem::path& program)
      : peer_(find_peer("rpc", Environment::of_process(), program)),
        torch_("torch", 2, peer_.command, peer_.missing),
        ours_(
            "ours",
            rank_starts(
                {program.string(), "bench", "--worker", "rpc"}, 2, our_variables())) {}

  const std::string& no_peer() const { return torch_.missing(); }

  Record measure(const RpcCase& one, const RoundPlan& plan) {
    Record record{
        .bench = "rpc",
        .name = one.name,
        .limit = one.limit,
        .goal = one.goal,
        .unit = one.unit};
    if (one.figure) {
      if (crowd_.empty())
        crowd_ = first_row(ours_.ask(to_line(one.ours), kAnswerLimit));
      record.ours.add_round({crowd_.at(static_cast<size_t>(*one.figure))});
      return record;
    }
    Round peer;
    if (one.peer)
      peer = [&] { return ask_torch(*one.peer); };
    const auto ours = [&] {
      return in_us(first_row(ours_.ask(to_line(one.ours), kAnswerLimit)));
    };
    measure_in_turn(record, ours, peer, plan);
    // Half a peer would be compared with the whole of ours.
    if (!torch_.missing().empty())
      record.peer = {};
    return record;
  }

 private:
  static Environment::Variables our_variables() {
    Environment::Variables variables = side_variables();
    variables["TRIREME_JOB_KEY"] = net::JobKey::random().text();
    return variables;
  }
  static std::vector<double> in_us(std::vector<double> times) {
    for (double& time : times)
      time *= 1e6;
    return times;
  }
  static std::vector<double> first_row(const Rows& rows) { return rows.at(0); }

  std::vector<double> ask_torch(const RpcJob& job) {
    if (!torch_.missing().empty())
      return {};
    try {
      return in_us(first_row(torch_.ask(to_line(job), kAnswerLimit)));
    } catch (const Error& error) {
      torch_.give_up(error.what());
      return {};
    }
  }

  PeerCommand peer_;
  RankSide torch_;
  WorkerTeam ours_;
  std::vector<double> crowd_;
};

}  // namespace

BenchReport bench_rpc(const MeasureOptions& options) {
  constexpr double kQuickSeconds = 5, kSeconds = 30;
  const auto cases = choose_cases(
      rpc_cases(net::has_tls(), options.quick ? kQuickSeconds : kSeconds),
      options.only,
      [](const RpcCase& one) { return one.name; });
  RpcSides sides(options.program);
  BenchReport report = measure_cases("rpc", cases, [&](const RpcCase& one) {
    return sides.measure(one, plan_rounds(options));
  });
  for (size_t i = 0; i < cases.size(); ++i)
    if (cases[i].peer && report.records[i].peer.rounds.empty())
      report.no_peer = sides.no_peer();
  return report;
}

}  // namespace trireme::bench
