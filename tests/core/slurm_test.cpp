// Slurm's short form of tasks per node, and what is a step.
#include "trireme/core/slurm.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

std::vector<int> parse(std::string_view value) {
  return parse_slurm_tasks("TASKS", value);
}

bool in_step(const char* step) {
  return in_slurm_step(Environment{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", step}});
}

TEST(Slurm, ReadsTasksPerNode) {
  EXPECT_EQ(parse("4"), (std::vector{4}));
  EXPECT_EQ(parse("4(x2)"), (std::vector{4, 4}));
  EXPECT_EQ(parse("2(x3),1"), (std::vector{2, 2, 2, 1}));
  EXPECT_EQ(parse("1,3,2(x2)"), (std::vector{1, 3, 2, 2}));
}

TEST(Slurm, RejectsOtherFormsOfTasksPerNode) {
  for (const char* value :
       {"",
        ",",
        "4,",
        ",4",
        "4,,4",
        "x",
        "4x2",
        "4(2)",
        "4(x2",
        "4(x)",
        "4(x0)",
        "0",
        "-1",
        "4 ",
        " 4",
        "4(x2)3",
        "4()",
        "(x2)",
        "4(x-1)",
        "1000001",
        "1(x1000001)",
        "1(x999999),1(x2)",
        "99999999999999999999"}) {
    EXPECT_THROW(parse(value), InvalidArgument) << value;
  }
}

TEST(Slurm, NamesTheVariableThatIsOdd) {
  try {
    parse("4x2");
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(
        error.what(),
        "[core] expected TASKS to be tasks per node, as 4, 4(x2) or 2(x3),1, got "
        "\"4x2\"; "
        "start the ranks with srun and leave its variables as they are");
  }
}

TEST(Slurm, StepsOfSrunAreSteps) {
  EXPECT_TRUE(in_step("0"));
  EXPECT_TRUE(in_step("4294967289"));
}

TEST(Slurm, SpecialAndOddStepIdsAreNoSteps) {
  for (const char* step :
       {"4294967290", "4294967291", "4294967294", "", "x", "0x", "-1", " 0", "batch"}) {
    EXPECT_FALSE(in_step(step)) << step;
  }
  EXPECT_FALSE(in_slurm_step(Environment{{"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(in_slurm_step(Environment{{"SLURM_STEP_ID", "0"}}));
}

TEST(Slurm, TheStepsOwnTasksWinOverTheJobs) {
  const Environment env{
      {"SLURM_STEP_TASKS_PER_NODE", "2"},
      {"SLURM_TASKS_PER_NODE", "8(x2)"},
      {"SLURM_NTASKS_PER_NODE", "8"}};
  EXPECT_EQ(slurm_local_size(env, 2), 2);
}

TEST(Slurm, FallsBackToTheLimitPerNode) {
  EXPECT_EQ(slurm_local_size(Environment{{"SLURM_NTASKS_PER_NODE", "4"}}, 8), 4);
  EXPECT_THROW(slurm_local_size(Environment(), 8), InvalidArgument);
}

TEST(Slurm, PicksTheTasksOfThisNode) {
  const auto size = [](const char* node) {
    return slurm_local_size(
        Environment{{"SLURM_TASKS_PER_NODE", "2(x3),1"}, {"SLURM_NODEID", node}}, 7);
  };
  EXPECT_EQ(size("2"), 2);
  EXPECT_EQ(size("3"), 1);
  EXPECT_THROW(size("4"), InvalidArgument);
  EXPECT_THROW(size("x"), InvalidArgument);
}

TEST(Slurm, ManyNodesNeedANodeId) {
  EXPECT_EQ(slurm_local_size(Environment{{"SLURM_TASKS_PER_NODE", "4"}}, 4), 4);
  EXPECT_THROW(
      slurm_local_size(Environment{{"SLURM_TASKS_PER_NODE", "4(x2)"}}, 8),
      InvalidArgument);
}

TEST(Slurm, TasksMustAddUpToTheWorld) {
  try {
    slurm_local_size(Environment{{"SLURM_TASKS_PER_NODE", "4"}}, 2);
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(
        error.what(),
        "[core] expected SLURM_TASKS_PER_NODE to add up to SLURM_NTASKS=2, got \"4\"; "
        "start "
        "the ranks with srun and leave its variables as they are");
  }
}

}  // namespace
}  // namespace trireme
