// Costs and schedules, as they are asked for.
#include "trireme/cli/schedule_input.h"

#include "schedule_helpers.h"
#include "trireme/core/error.h"

namespace trireme::cli {
namespace {

TEST(ScheduleInput, AutoIsNeverWorseOnEitherMap) {
  const auto time = [](const std::string& name) {
    return Json::parse(ask({"simulate",
                            name,
                            "--ranks",
                            "3",
                            "--microbatches",
                            "6",
                            "--stages-per-rank",
                            "2",
                            "--format",
                            "json"})
                           .out)
        .at("makespan")
        .get<double>();
  };
  EXPECT_LE(time("Auto"), time("ZBVZeroBubble"));
  EXPECT_LE(time("auto"), time("InterleavedZeroBubble"));
}

TEST_F(ScheduleFiles, LayersAreCutForTheSimulation) {
  const std::string costs = write(
      "layers.json",
      R"({"version":1,"layers":[{"forward":1,"input_grad":1,"weight_grad":1},
          {"forward":1,"input_grad":1,"weight_grad":1},
          {"forward":2,"input_grad":2,"weight_grad":2}]})");
  const Answer answer = ask(
      {"simulate",
       "1F1B",
       "--ranks",
       "2",
       "--microbatches",
       "2",
       "--costs",
       costs,
       "--format",
       "json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(Json::parse(answer.out).at("busy"), Json({12, 12}));
}

TEST_F(ScheduleFiles, CostsComeFromTheFileOrTheFlags) {
  ScheduleArguments arguments{.forward = 3, .latency = 0.5, .bandwidth = "10"};
  sched::CostFile flags = read_costs(arguments);
  EXPECT_EQ(flags.costs.stages[0].forward, 3);
  EXPECT_EQ(flags.costs.stages[0].backward, 2);
  EXPECT_EQ(flags.costs.link.latency, 0.5);
  EXPECT_EQ(flags.costs.link.bandwidth, 10);
  arguments.costs = write(
      "costs.json",
      R"({"version":1,"message_bytes":7,
          "stages":[{"forward":9,"input_grad":1,"weight_grad":2}]})");
  sched::CostFile file = read_costs(arguments);
  EXPECT_EQ(file.costs.stages[0].forward, 9);
  EXPECT_EQ(file.costs.message_bytes, 7);
  EXPECT_EQ(file.costs.link.latency, 0.5);
  arguments.bandwidth = "wide";
  EXPECT_THROW(read_costs(arguments), InvalidArgument);
}

TEST_F(ScheduleFiles, ANameNeedsASizeAndAFileHasOne) {
  ScheduleArguments arguments{.what = "1F1B", .ranks = 2};
  EXPECT_THROW(read_schedule(arguments, {}), InvalidArgument);
  arguments.microbatches = 3;
  EXPECT_EQ(read_schedule(arguments, {}).microbatches, 3);
  arguments = {.what = write("one.csv", "0F0,0B0\n")};
  EXPECT_EQ(read_schedule(arguments, {}).ranks(), 1);
  EXPECT_THROW(read_input(path("none")), InvalidArgument);
}

}  // namespace
}  // namespace trireme::cli
