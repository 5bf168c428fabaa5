#include "trireme/train/metrics.h"

#include <cmath>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::train {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Metrics, OneObjectAStep) {
  EXPECT_EQ(
      to_json(
          {.step = 3,
           .loss = 1.5,
           .grad_norm = 0.25,
           .lr = 0.5,
           .tokens = 96,
           .tokens_per_s = 8,
           .bubble = 0.125,
           .peak_bytes = 7}),
      R"({"step":3,"loss":1.5,"grad_norm":0.25,"lr":0.5,"tokens":96,)"
      R"("tokens_per_s":8.0,"bubble":0.125,"peak_bytes":7})");
  const std::string special =
      to_json({.step = 1, .loss = std::nan(""), .held_out_loss = 2.0});
  EXPECT_NE(special.find(R"("loss":null)"), std::string::npos);
  EXPECT_NE(special.find(R"("held_out_loss":2.0)"), std::string::npos);
}

TEST(Metrics, AResumedRunGoesOnWhereItsCheckpointWas) {
  const testing::ScratchFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int64_t step = 1; step <= 4; ++step)
      file.write({.step = step});
  }
  std::ofstream(path, std::ios::app) << R"({"step":5,"lo)";  // a kill in the middle
  {
    MetricsFile file(path, 2);
    file.write({.step = 3, .loss = 9});
  }
  const std::string all = read(path);
  EXPECT_NE(all.find(R"({"step":1,)"), std::string::npos);
  EXPECT_NE(all.find(R"({"step":2,)"), std::string::npos);
  EXPECT_NE(all.find(R"({"step":3,"loss":9.0)"), std::string::npos);
  EXPECT_EQ(all.find(R"("step":4)"), std::string::npos);
  EXPECT_EQ(all.find(R"("step":5)"), std::string::npos);
}

TEST(Metrics, TheOldLinesAreThereUntilTheNewFileIs) {
  const testing::ScratchFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  { MetricsFile(path, 0).write({.step = 1}); }
  const std::string before = read(path);
  std::ifstream old(path);  // a reader, or a kill at any moment, sees them whole
  MetricsFile file(path, 1);
  file.write({.step = 2});
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(old), {}), before);
  EXPECT_TRUE(read(path).starts_with(before));
  EXPECT_EQ(
      std::distance(
          std::filesystem::directory_iterator(folder.path()),
          std::filesystem::directory_iterator{}),
      1);
}

TEST(Metrics, ANewRunBeginsAnew) {
  const testing::ScratchFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  { MetricsFile(path, 0).write({.step = 1}); }
  { MetricsFile again(path, 0); }
  EXPECT_EQ(read(path), "");
  EXPECT_THROW(MetricsFile(folder.path() / "no" / "such", 0), InvalidArgument);
}

}  // namespace
}  // namespace trireme::train
