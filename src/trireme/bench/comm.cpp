#include "trireme/bench/comm.h"

#include <iostream>
#include <map>
#include <memory>

#include "trireme/bench/peer.h"
#include "trireme/bench/workers.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"

namespace trireme::bench {
namespace {

// What all ranks together took of one core while they waited, in percent.
double share_of_core(const Rows& rows) {
  double seconds = 0;
  for (const auto& row : rows)
    for (const double spent : row)
      seconds += spent;
  return 100 * seconds / std::chrono::duration<double>(kLateRank).count();
}

// The workers of one number of ranks, started when they are first needed.
class Teams {
 public:
  explicit Teams(const std::filesystem::path& program)
      : program_(program),
        gloo_(find_peer("comm", Environment::of_process(), program)) {}

  /// Why there is no gloo; empty while there is.
  const std::string& no_gloo() const { return gloo_.missing; }

  /// The times of one round in microseconds; none if it is up to gloo and there is
  /// none.
  std::vector<double> measure(const CommSide& side, int ranks) {
    try {
      if (side.team == CommTeam::Gloo && !gloo_.missing.empty())
        return {};
      const Rows rows = get(side.team, ranks).ask(to_line(side.job), kAnswerLimit);
      if (side.job.op == "wait")
        return {share_of_core(rows)};
      auto times = side.job.op == "abort" ? spread(rows) : slowest(rows);
      for (double& time : times)
        time *= 1e6;
      return times;
    } catch (const Error& error) {
      // Our own failures end the benchmark; without the peer it goes on, and says so.
      if (side.team != CommTeam::Gloo)
        throw;
      gloo_.missing = peer_failed(error.what());
      teams_.erase(side.team);
      return {};
    }
  }

 private:
  WorkerTeam& get(CommTeam team, int ranks) {
    if (ranks != ranks_)
      teams_.clear();
    ranks_ = ranks;
    auto& place = teams_[team];
    if (!place)
      place = start(team, ranks);
    return *place;
  }

  std::unique_ptr<WorkerTeam> start(CommTeam team, int ranks) const {
    Environment::Variables variables{{"OMP_NUM_THREADS", "1"}};
    if (team == CommTeam::Gloo) {
      // Otherwise gloo asks for the address of the host's name, which not every host
      // has.
      if (!Environment::of_process().has("GLOO_SOCKET_IFNAME"))
        variables["GLOO_SOCKET_IFNAME"] = "lo";
      return std::make_unique<WorkerTeam>(
          "gloo", rank_starts(gloo_.command, ranks, variables));
    }
    variables["TRIREME_BACKEND"] = "shm";
    variables["TRIREME_TIMEOUT"] = "60";
    variables["TRIREME_FLIGHT_DIR"] = "";  // an abort is no accident here
    std::vector<std::string> command{program_.string(), "bench", "--worker", "comm"};
    if (team == CommTeam::Shm)
      return std::make_unique<WorkerTeam>(
          "shm", rank_starts(command, ranks, variables));
    if (team == CommTeam::Launched)
      return std::make_unique<WorkerTeam>(
          "launched", launched_start(command, ranks, variables));
    command.insert(command.end(), {"--worker-threads", text(ranks)});
    const std::vector<WorkerStart> one{{.command = command, .variables = variables}};
    return std::make_unique<WorkerTeam>("local", one);
  }

  // One process to talk to: the launcher, whose stdin is rank 0's.
  std::vector<WorkerStart> launched_start(
      const std::vector<std::string>& worker,
      int ranks,
      Environment::Variables variables) const {
    std::vector<std::string> command{
        (program_.parent_path() / "trireme").string(), "run", "-n", text(ranks), "--"};
    command.insert(command.end(), worker.begin(), worker.end());
    command.push_back("--worker-led");
    variables["TRIREME_TIMEOUT"] = "86400";  // others measure while it waits for a job
    return {{.command = command, .variables = variables}};
  }

  std::filesystem::path program_;
  PeerCommand gloo_;
  int ranks_ = 0;
  std::map<CommTeam, std::unique_ptr<WorkerTeam>> teams_;
};

Record measure_case(const CommCase& one, Teams& teams, RoundPlan plan) {
  Record record{
      .bench = "comm",
      .name = one.name,
      .limit = one.limit,
      .goal = one.goal,
      .unit = one.unit};
  Round peer;
  if (one.peer)
    peer = [&] { return teams.measure(*one.peer, one.ranks); };
  measure_in_turn(
      record, [&] { return teams.measure(one.ours, one.ranks); }, peer, plan);
  // Half a peer would be compared with the whole of ours.
  if (one.peer && one.peer->team == CommTeam::Gloo && !teams.no_gloo().empty())
    record.peer = {};
  return record;
}

}  // namespace

BenchReport bench_comm(const MeasureOptions& options) {
  const auto cases = choose_cases(
      comm_cases(), options.only, [](const CommCase& one) { return one.name; });
  const std::string machine = to_string(describe_machine());
  const double load = load_average();
  Teams teams(options.program);
  BenchReport report;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::cerr << "bench comm " << i + 1 << "/" << cases.size() << ": " << cases[i].name
              << std::endl;
    report.records.push_back(measure_case(cases[i], teams, plan_rounds(options)));
    report.records.back().machine = machine;
    report.records.back().load = load;
    if (report.records.back().peer.rounds.empty() && cases[i].peer)
      report.no_peer = teams.no_gloo();
  }
  return report;
}

}  // namespace trireme::bench
