#include "trireme/bench/comm.h"

#include "trireme/bench/comm_teams.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::bench {
namespace {

Record measure_case(const CommCase& one, CommTeams& teams, RoundPlan plan) {
  Record record = measure_sides(
      "comm",
      one,
      [&](const CommSide& side) { return teams.measure(side, one.ranks); },
      plan);
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

// Why this machine cannot run it; empty if it can.
std::string missing_for(const CommCase& one) {
  if (const HostLink link = link_of(one.ours.team); link != HostLink::None)
    return TwoHosts::missing(link);
  return one.ours.team == CommTeam::Mpi ? missing_mpi() : "";
}

}  // namespace

BenchReport bench_comm(const MeasureOptions& options) {
  const auto cases =
      choose_cases(cases_of(options.backend), options.only, [](const CommCase& one) {
        return one.name;
      });
  CommTeams teams(options.program);
  BenchReport report = measure_cases("comm", cases, [&](const CommCase& one) {
    if (const std::string missing = missing_for(one); !missing.empty())
      return leave_out("comm", one, missing);
    return measure_case(one, teams, plan_rounds(options));
  });
  for (size_t i = 0; i < cases.size(); ++i)
    if (cases[i].peer && report.records[i].left_out.empty() &&
        report.records[i].peer.rounds.empty())
      report.no_peer = teams.no_gloo();
  return report;
}

}  // namespace trireme::bench
