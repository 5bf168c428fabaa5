#include "trireme/bench/schedule_worker.h"

#include <chrono>

#include <nlohmann/json.hpp>

#include "trireme/bench/job.h"
#include "trireme/bench/protocol.h"
#include "trireme/core/error.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::bench {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ScheduleJob, ranks, stages_per_rank, microbatches)

std::string to_line(const ScheduleJob& job) {
  return Json(job).dump();
}

ScheduleJob parse_schedule_job(const std::string& line) {
  return parse_job<ScheduleJob>(line);
}

ScheduleCost time_schedule(const ScheduleJob& job) {
  const auto start = Clock::now();
  const sched::Schedule schedule = sched::generate(
      "Interleaved1F1B",
      {.ranks = job.ranks,
       .microbatches = job.microbatches,
       .stages_per_rank = job.stages_per_rank});
  sched::validate(schedule);
  const sched::Schedule program = sched::lower(schedule);
  const sched::Proof proof = sched::prove(program);
  const sched::Simulation simulation = sched::simulate(program, {});
  const std::chrono::duration<double> time = Clock::now() - start;
  if (!proof.holds || simulation.makespan < simulation.ideal)
    throw InternalError(text(
        "[bench] expected a schedule that runs to its end, got one that ",
        proof.holds ? "takes less time than its work" : proof.why));
  return {.seconds = time.count(), .actions = program.size()};
}

int run_schedule_worker(std::istream& in, std::ostream& out) {
  return serve_jobs(in, out, [] {
    return JobWork([](const std::string& line) {
      const ScheduleCost cost = time_schedule(parse_schedule_job(line));
      return std::vector<double>{cost.seconds, static_cast<double>(cost.actions)};
    });
  });
}

}  // namespace trireme::bench
