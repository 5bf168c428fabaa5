#include "trireme/bench/net.h"

#include <map>

#include "trireme/bench/protocol.h"
#include "trireme/bench/side.h"
#include "trireme/launch/variables.h"
#include "trireme/net/tls.h"

namespace trireme::bench {
namespace {

/// Both sides are wires between the same two processes; those that are not measured
/// sleep.
class NetPair {
 public:
  explicit NetPair(const std::filesystem::path& program)
      : team_(
            "net",
            rank_starts(
                {program.string(), "bench", "--worker", "net"}, 2, variables())) {}

  /// One round, in the case's unit.
  std::vector<double> measure(NetJob job) {
    auto [port, is_new] = ports_.try_emplace(job.wire, 0);
    if (is_new || job.op == "idle")
      port->second = launch::free_port();
    job.port = port->second;
    const Rows rows = team_.ask(to_line(job), kAnswerLimit);
    if (job.op == "idle")
      return slowest(rows);
    auto times = job.op == "overtake" ? spread(rows) : slowest(rows);
    for (double& time : times)
      time *= 1e6;
    return times;
  }

 private:
  static Environment::Variables variables() {
    Environment::Variables variables = side_variables();
    variables["TRIREME_JOB_KEY"] = net::JobKey::random().text();
    return variables;
  }

  WorkerTeam team_;
  std::map<std::string, int> ports_;
};

RoundPlan plan_for(const NetCase& one, const MeasureOptions& options) {
  RoundPlan plan = plan_rounds(options);
  // A thousand connections take a second or two.
  if (one.ours.op == "idle" && options.rounds == 0)
    plan.rounds = 3;
  return plan;
}

}  // namespace

BenchReport bench_net(const MeasureOptions& options) {
  const auto cases = choose_cases(
      net_cases(), options.only, [](const NetCase& one) { return one.name; });
  NetPair pair(options.program);
  return measure_cases("net", cases, [&](const NetCase& one) {
    if (one.ours.wire == "key" && !net::has_tls())
      return leave_out(
          "net",
          one,
          "this build is without OpenSSL; install libssl-dev, and build again");
    return measure_sides(
        "net",
        one,
        [&](const NetJob& job) { return pair.measure(job); },
        plan_for(one, options));
  });
}

}  // namespace trireme::bench
