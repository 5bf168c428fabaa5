// Every schedule on threads and on processes gives what one process gives.
#include <gtest/gtest.h>

#include "pipeline_case.h"
#include "trireme/core/error.h"
#include "trireme/sched/generate.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;

struct Size {
  int stages_per_rank;
  int microbatches;
};

/// Whether the schedule can have this size.
bool fits(const sched::ScheduleInfo& info, int ranks, const Size& size) {
  try {
    sched::generate(
        info.name,
        {.ranks = ranks,
         .microbatches = size.microbatches,
         .stages_per_rank = size.stages_per_rank});
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

/// All that fit so many ranks: few and many microbatches, less than ranks among them,
/// and one, two and three stages a rank. Rows are uneven, and inputs want gradients.
std::vector<Problem> problems_for(int ranks) {
  std::vector<Problem> problems;
  const auto add = [&](const std::string& name, const Size& size) {
    problems.push_back(dense_problem(
        name,
        ranks * size.stages_per_rank,
        size.microbatches,
        2 * size.microbatches + 1));
    problems.back().batch.inputs[0].set_requires_grad(true);
  };
  for (const sched::ScheduleInfo& info : sched::all_schedules())
    for (const Size& size :
         {Size{1, 1},
          Size{1, 2},
          Size{1, 2 * ranks},
          Size{2, 2},
          Size{2, 2 * ranks},
          Size{2, 2 * ranks + 1},
          Size{3, ranks}})
      if (info.name != std::string("ForwardOnly") && fits(info, ranks, size))
        add(info.name, size);
  add("Auto", {1, 4});
  if (ranks == 2)
    add("Auto", {2, 4});
  return problems;
}

/// One world for all of them: one after the other, each as a pipeline of its own.
void equals_one_process(Backend backend, int ranks) {
  const std::vector<Problem> problems = problems_for(ranks);
  ASSERT_GE(problems.size(), sched::all_schedules().size());
  std::vector<Outcome> wanted;
  for (const Problem& problem : problems)
    wanted.push_back(run_alone(problem));
  testing::run_world(backend, ranks, [&](const comm::Group& world) {
    for (size_t i = 0; i < problems.size(); ++i) {
      const PipelineOptions& options = problems[i].options;
      SCOPED_TRACE(text(
          options.schedule,
          ", ",
          problems[i].model().size(),
          " stages on ",
          ranks,
          " ranks, ",
          options.microbatches,
          " microbatches, rank ",
          world.rank()));
      PipelineRank rank(problems[i], world);
      rank.expect(wanted[i], rank.step());
    }
  });
}

TEST(PipelineEqualityRanks, EverySchedule) {
  for (const int ranks : {1, 2, 3, 4})
    equals_one_process(Backend::Local, ranks);
}

TEST(PipelineEqualityProcs, EverySchedule) {
  for (const int ranks : {1, 2, 3, 4})
    equals_one_process(Backend::Shm, ranks);
}

// The shm engine between threads, which a thread sanitizer can look into.
TEST(PipelineEqualityRanks, EveryScheduleOverTheShmEngine) {
  equals_one_process(Backend::ShmThreads, 2);
}

}  // namespace
}  // namespace trireme::pipe
