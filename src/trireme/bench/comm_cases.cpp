// The table of docs/benchmarks.md as data.
#include "trireme/bench/comm.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

std::string size_text(int64_t bytes) {
  if (bytes >= kMiB)
    return text(bytes / kMiB, " MiB");
  if (bytes >= kKiB)
    return text(bytes / kKiB, " KiB");
  return text(bytes, " B");
}

// Repetitions of one round: some tens of milliseconds on either side, so that a
// disturbance hits few rounds and 20 rounds stay short. Gloo needs 10 to 100 times as
// long for one.
int repetitions(CommTeam team, int64_t bytes, int ranks) {
  const bool gloo = is_gloo(team);
  const int crowd = ranks > 2 ? 2 : 1;
  if (bytes <= 4 * kKiB)
    return (gloo ? 30 : 200) / crowd;
  if (bytes <= 64 * kKiB)
    return (gloo ? 20 : 200) / crowd;
  if (bytes <= kMiB)
    return (gloo ? 8 : 40) / crowd;
  if (bytes <= 16 * kMiB)
    return (gloo ? 4 : 8) / crowd;
  return (gloo ? 2 : 4) / crowd;
}

CommSide side(CommTeam team, const std::string& op, int64_t bytes, int ranks = 2) {
  const int count = repetitions(team, bytes, ranks);
  return {
      .team = team,
      .job = {
          .op = op,
          .bytes = bytes,
          .warm_up = std::max(1, count / 10),
          .repetitions = count}};
}

CommCase against_gloo(
    const std::string& op, int64_t bytes, double goal, int ranks = 2) {
  return {
      .name = text(op, " ", size_text(bytes), ", ", ranks, " ranks"),
      .ranks = ranks,
      .ours = side(CommTeam::Shm, op, bytes, ranks),
      .peer = side(CommTeam::Gloo, op, bytes, ranks),
      .goal = goal,
      .limit = {}};
}

CommCase in_segment(double goal) {
  CommCase result = against_gloo("all_reduce", 64 * kMiB, goal);
  result.name = "all_reduce 64 MiB in the segment, 2 ranks";
  result.ours.job.in_segment = true;
  return result;
}

CommCase bfloat16_against_float32(double goal) {
  CommCase result = against_gloo("all_reduce", 64 * kMiB, goal);
  result.name = "all_reduce 64 MiB, bfloat16 against float32";
  result.peer = result.ours;
  result.ours.job.dtype = "bfloat16";
  return result;
}

CommCase local_against_shm(const std::string& op, int64_t bytes) {
  return {
      .name = text(op, " ", size_text(bytes), ", local against shm"),
      .ranks = 2,
      .ours = side(CommTeam::Local, op, bytes),
      .peer = side(CommTeam::Shm, op, bytes),
      .goal = 0.9,
      .limit = {}};
}

// Through `trireme run`, which gives each rank cores of its own.
CommCase pinned_against_unpinned(const std::string& op, int64_t bytes) {
  return {
      .name = text(op, " ", size_text(bytes), ", trireme run against unpinned"),
      .ranks = 2,
      .ours = side(CommTeam::Launched, op, bytes),
      .peer = side(CommTeam::Shm, op, bytes),
      .goal = 1 / 1.2,
      .limit = {}};
}

CommCase tcp_against_gloo(int64_t bytes, double goal) {
  return {
      .name = text("all_reduce ", size_text(bytes), ", tcp, 2 ranks"),
      .ranks = 2,
      .ours = side(CommTeam::Tcp, "all_reduce", bytes),
      .peer = side(CommTeam::Gloo, "all_reduce", bytes),
      .goal = goal,
      .limit = {}};
}

CommCase hosts_against_gloo(int64_t bytes, double goal) {
  constexpr int kRanks = 4;
  return {
      .name = text("all_reduce ", size_text(bytes), ", tcp, 2 hosts of 2 ranks"),
      .ranks = kRanks,
      .ours = side(CommTeam::TcpHosts, "all_reduce", bytes, kRanks),
      .peer = side(CommTeam::GlooHosts, "all_reduce", bytes, kRanks),
      .goal = goal,
      .limit = {}};
}

CommCase gigabit_against_gloo(int64_t bytes, double goal) {
  CommCase result = hosts_against_gloo(bytes, goal);
  result.name += " over 1 Gbit/s";
  result.ours.team = CommTeam::TcpGigabit;
  result.peer->team = CommTeam::GlooGigabit;
  return result;
}

// Two hosts of 2 ranks, which are this machine.
CommCase mpi_hosts_against(const std::string& peer, const char* name, int64_t bytes) {
  constexpr int kRanks = 4;
  return {
      .name = text("all_reduce ", size_text(bytes), ", mpi, 2 hosts against ", name),
      .ranks = kRanks,
      .ours = side(CommTeam::Mpi, "all_reduce_hosts", bytes, kRanks),
      .peer = side(CommTeam::Mpi, peer, bytes, kRanks),
      .goal = {},
      .limit = {}};
}

CommCase waiting_within(int ranks, double limit_percent) {
  return {
      .name = text(ranks, " ranks wait for one, share of a core"),
      .ranks = ranks,
      .ours =
          {.team = CommTeam::Shm,
           .job = {.op = "wait", .warm_up = 0, .repetitions = 1}},
      .peer = {},
      .goal = {},
      .limit = limit_percent,
      .unit = "%"};
}

CommCase abort_within(CommTeam team, const std::string& name, double limit_us) {
  return {
      .name = "abort wakes 3 others, " + name,
      .ranks = 4,
      .ours = {.team = team, .job = {.op = "abort", .warm_up = 0, .repetitions = 1}},
      .peer = {},
      .goal = {},
      .limit = limit_us};
}

// In the midst of it, so that there are transfers to be taken back.
CommCase abort_of_tcp_within(int64_t bytes, double limit_us) {
  CommCase result = abort_within(
      CommTeam::Tcp, text("tcp, in all_reduce ", size_text(bytes)), limit_us);
  result.ours.job.op = "abort_all_reduce";
  result.ours.job.bytes = bytes;
  return result;
}

}  // namespace

std::vector<CommCase> comm_cases() {
  return {
      against_gloo("all_reduce", 4, 15),
      against_gloo("all_reduce", 4 * kKiB, 50),
      against_gloo("all_reduce", 64 * kKiB, 20),
      against_gloo("all_reduce", kMiB, 8),
      against_gloo("all_reduce", 64 * kMiB, 4),
      in_segment(8),
      against_gloo("ping_pong", 4 * kKiB, 25),
      against_gloo("ping_pong", 16 * kMiB, 3),
      bfloat16_against_float32(1 / 1.5),
      local_against_shm("all_reduce", 4),
      local_against_shm("all_reduce", 64 * kKiB),
      local_against_shm("all_reduce", kMiB),
      local_against_shm("all_reduce", 64 * kMiB),
      local_against_shm("ping_pong", 4 * kKiB),
      pinned_against_unpinned("all_reduce", 4),
      pinned_against_unpinned("all_reduce", 64 * kKiB),
      pinned_against_unpinned("ping_pong", 4 * kKiB),
      abort_within(CommTeam::Shm, "shm", 100e3),
      abort_within(CommTeam::Local, "local", 100e3),
      against_gloo("all_reduce", 4, 10, 8),
      against_gloo("all_reduce", kMiB, 15, 8),
      against_gloo("all_reduce", 64 * kMiB, 3.5, 8),
      waiting_within(64, 5),
  };
}

std::vector<CommCase> comm_tcp_cases() {
  return {
      tcp_against_gloo(4, 3),
      tcp_against_gloo(4 * kKiB, 3),
      tcp_against_gloo(64 * kKiB, 3),
      tcp_against_gloo(kMiB, 1),
      tcp_against_gloo(64 * kMiB, 1),
      hosts_against_gloo(kMiB, 2),
      hosts_against_gloo(64 * kMiB, 2),
      gigabit_against_gloo(kMiB, 2),
      gigabit_against_gloo(64 * kMiB, 2),
      abort_within(CommTeam::Tcp, "tcp", 100e3),
      abort_of_tcp_within(64 * kMiB, 100e3),
  };
}

std::vector<CommCase> comm_mpi_cases() {
  std::vector<CommCase> cases;
  for (const int64_t bytes : {int64_t{4}, 64 * kKiB, kMiB, 64 * kMiB}) {
    cases.push_back(mpi_hosts_against("all_reduce", "flat", bytes));
    cases.back().goal = 1;
    cases.push_back(mpi_hosts_against("MPI_Allreduce", "MPI_Allreduce", bytes));
  }
  return cases;
}

}  // namespace trireme::bench
