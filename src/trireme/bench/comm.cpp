#include "trireme/bench/comm.h"

#include <iostream>

#include "trireme/bench/comm_teams.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/machine.h"

namespace trireme::bench {
namespace {

Record measure_case(const CommCase& one, CommTeams& teams, RoundPlan plan) {
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
  if (one.peer && is_gloo(one.peer->team) && !teams.no_gloo().empty())
    record.peer = {};
  return record;
}

std::vector<CommCase> cases_of(const std::string& backend) {
  if (backend.empty() || backend == "shm")
    return comm_cases();
  if (backend == "tcp")
    return comm_tcp_cases();
  if (backend == "mpi")
    return comm_mpi_cases();
  throw InvalidArgument(text(
      "[cli] expected --backend to be shm, tcp or mpi, got ",
      in_quotes(backend),
      "; take one of them"));
}

// Those that this machine can run; says on stderr which are left out, and why.
std::vector<CommCase> without_impossible(std::vector<CommCase> cases) {
  const std::string no_hosts = TwoHosts::missing(), no_mpi = missing_mpi();
  std::vector<CommCase> possible;
  for (CommCase& one : cases) {
    std::string missing;
    if (needs_hosts(one.ours.team))
      missing = no_hosts;
    else if (one.ours.team == CommTeam::Mpi)
      missing = no_mpi;
    if (missing.empty())
      possible.push_back(std::move(one));
    else
      std::cerr << "bench comm: left out " << one.name << ": " << missing << std::endl;
  }
  return possible;
}

}  // namespace

BenchReport bench_comm(const MeasureOptions& options) {
  const auto cases = choose_cases(
      without_impossible(cases_of(options.backend)),
      options.only,
      [](const CommCase& one) { return one.name; });
  const std::string machine = to_string(describe_machine());
  const double load = load_average();
  CommTeams teams(options.program);
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
