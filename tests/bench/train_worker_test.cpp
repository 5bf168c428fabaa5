#include "trireme/bench/train_worker.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/testing/world.h"

namespace trireme::bench {
namespace {

TrainJob small(const char* layout) {
  return {
      .layout = layout,
      .dim = 8,
      .layers = 2,
      .heads = 2,
      .vocab = 16,
      .sequence = 8,
      .batch = 4,
      .repetitions = 2};
}

TEST(BenchTrainWorker, JobsAreLines) {
  TrainJob job = small("data parallel");
  job.folder = "/a folder";
  job.new_tokens = 7;
  const TrainJob same = parse_train_job(to_line(job));
  EXPECT_EQ(to_line(same), to_line(job));
  EXPECT_EQ(same.layout, "data parallel");
  EXPECT_EQ(same.new_tokens, 7);
  EXPECT_THROW(parse_train_job("{}"), InvalidArgument);
  EXPECT_THROW(parse_train_job("rubbish"), InvalidArgument);
}

TEST(BenchTrainWorkerRanks, TimesStepsOfBothLayouts) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    TrainWorker worker(world);
    for (const char* layout : {"pipeline", "data parallel", "pipeline"}) {
      const auto times = worker.work(small(layout));
      ASSERT_EQ(times.size(), 2U) << layout;
      for (const double time : times)
        EXPECT_GT(time, 0);
    }
  });
}

TEST(BenchTrainWorkerRanks, SamplesFromAFolderWithoutWeights) {
  const testing::ScratchFolder folder;
  folder.write(
      "config.json",
      R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2,
          "vocab_size": 16, "n_positions": 16})");
  testing::run_world(testing::Backend::Local, 1, [&](const comm::Group& world) {
    TrainWorker worker(world);
    TrainJob job = small("pipeline");
    job.op = "tokens";
    job.folder = folder.path().string();
    job.prompt = 3;
    job.new_tokens = 5;
    const auto tokens = worker.work(job);
    ASSERT_EQ(tokens.size(), 5U);
    for (const double token : tokens)
      EXPECT_LT(token, 16);
    EXPECT_EQ(worker.work(job), tokens);
    job.op = "sample";
    EXPECT_EQ(worker.work(job).size(), 2U);
  });
}

}  // namespace
}  // namespace trireme::bench
