// The table of docs/benchmarks.md as data.
#include "trireme/bench/dist_autograd.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

// Four others for the chain and the calls; for the hybrid step four trainers and a
// server.
constexpr int kGradientRanks = 5;

// One kind of work: in the way that has the goal, and in others beside it.
void add_ways(
    std::vector<GradientCase>& cases, const GradientCase& as_asked, bool tls) {
  const auto add =
      [&](const char* what, const char* wire, const char* mode, bool asked) {
        GradientCase one = as_asked;
        one.name += what;
        one.job.wire = wire;
        one.job.mode = mode;
        if (!asked)
          one.goal.reset();
        cases.push_back(one);
      };
  if (tls) {
    add(", exact", "host", "exact", true);
    add(", static graph", "host", "static", false);
    add(", fast", "host", "fast", false);
  }
  add(", exact, without TLS", "plain", "exact", !tls);
}

}  // namespace

std::vector<GradientCase> gradient_cases(bool tls) {
  std::vector<GradientCase> cases;
  add_ways(
      cases,
      {.name = "multiply 1,024 floats",
       .job = {.op = "multiply", .warm_up = 20, .repetitions = 200},
       .goal = 5},
      tls);
  add_ways(
      cases,
      {.name = "chain through 4 workers",
       .ranks = kGradientRanks,
       .job = {.op = "chain", .calls = 4, .warm_up = 3, .repetitions = 30},
       .goal = 3},
      tls);
  add_ways(
      cases,
      {.name = "fan-out to 8 calls",
       .ranks = kGradientRanks,
       .job = {.op = "fan_out", .calls = 8, .warm_up = 3, .repetitions = 30},
       .goal = 3},
      tls);
  add_ways(
      cases,
      {.name = "hybrid step, 4 trainers and a server",
       .ranks = kGradientRanks,
       .job = {.op = "hybrid", .warm_up = 2, .repetitions = 20},
       .goal = 3},
      tls);
  return cases;
}

}  // namespace trireme::bench
