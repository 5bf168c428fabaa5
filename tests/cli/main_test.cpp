// The two programs as they are built, from the outside.
#include <chrono>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/cli/run_torch.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

launch::ChildResult main_run(const std::vector<std::string>& arguments) {
  return run_torch(TRIREME_PROGRAM, arguments, std::chrono::seconds(100));
}

TEST(MainProcs, StartsWithoutLibtorch) {
  // The best of some, since other tests run beside this one; libtorch alone takes
  // longer.
  auto best = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const launch::ChildResult result = main_run({"--version"});
    best = std::min(best, std::chrono::steady_clock::now() - start);
    ASSERT_EQ(result.out, std::string(kVersion) + "\n") << result.err;
  }
  EXPECT_LT(best, std::chrono::milliseconds(50));
}

TEST(MainProcs, TrainsOnTheTextThatComesWithIt) {
  const testing::ScratchFolder folder;
  const launch::ChildResult result = main_run(
      {"train",
       "--training.steps",
       "1",
       "--training.global_batch_size",
       "4",
       "--validation.steps",
       "1",
       "--job.dump_folder",
       (folder.path() / "run").string()});
  EXPECT_TRUE(result.ok()) << launch::failure_text(result);
  EXPECT_NE(result.out.find("held-out loss: 5."), std::string::npos) << result.out;
}

TEST(MainProcs, DoctorKnowsBothPrograms) {
  const launch::ChildResult result = main_run({"doctor", "--json"});
  EXPECT_TRUE(result.ok()) << launch::failure_text(result);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["version"], std::string(kVersion));
  EXPECT_TRUE(json["torch"]["libtorch"].is_string()) << json;
}

TEST(MainProcs, GivesTheCodesOfTheCommands) {
  EXPECT_EQ(main_run({"trian"}).exit_code, 2);
  EXPECT_EQ(main_run({"train", "--unknown"}).exit_code, 2);
  EXPECT_EQ(main_run({"doctor", "--flight", "/nowhere"}).exit_code, 1);
}

TEST(MainProcs, NoticesThatNobodyTakesTheOutput) {
  if (!std::filesystem::exists("/dev/full"))
    GTEST_SKIP() << "there is no /dev/full";
  const std::string program = TRIREME_PROGRAM;
  for (const char* words : {"--help", "train --help", "doctor"}) {
    const launch::ChildResult result = run_torch(
        "/bin/sh",
        {"-c", "\"$0\" " + std::string(words) + " >/dev/full", program},
        std::chrono::seconds(100));
    EXPECT_EQ(result.exit_code, 1) << words;
  }
}

}  // namespace
}  // namespace trireme::cli
