#include "trireme/cli/machine_facts.h"

#include <gtest/gtest.h>

#include "trireme/testing/scratch_folder.h"

namespace trireme::cli {
namespace {

TEST(MachineFacts, ListsWhatTriremeHasLeft) {
  const testing::ScratchFolder folder;
  folder.write("trireme-b", std::string(5000, 'x'));
  folder.write("trireme-a", "");
  folder.write("sem.other", "");
  const auto left = left_segments(folder.path());
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].name, "trireme-a");
  EXPECT_EQ(left[0].bytes, 0U);
  EXPECT_EQ(left[1].name, "trireme-b");
  EXPECT_GE(left[1].bytes, 5000U);
  EXPECT_FALSE(left[1].owner.empty());
  EXPECT_TRUE(left_segments(folder.path() / "none").empty());
}

TEST(MachineFacts, ReadsTheFilesOfTheDriver) {
  const testing::ScratchFolder root;
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"})
    root.write(std::string("dev/") + name, "");
  root.write("proc/driver/nvidia/version", "NVRM version: 570.1\nGCC version: 12\n");
  root.write(
      "proc/driver/nvidia/gpus/0000:01/information",
      "Model: \t\t NVIDIA H200\nIRQ: 7\n");
  root.write("proc/driver/nvidia/gpus/0000:02/information", "IRQ: 8\n");
  const GpuFacts facts = read_gpus(root.path());
  EXPECT_EQ(facts.devices, (std::vector<std::string>{"/dev/nvidia0", "/dev/nvidia1"}));
  EXPECT_EQ(facts.models, (std::vector<std::string>{"NVIDIA H200"}));
  EXPECT_EQ(facts.driver, "NVRM version: 570.1");
}

TEST(MachineFacts, HasNoGpuWithoutFiles) {
  const testing::ScratchFolder root;
  const GpuFacts facts = read_gpus(root.path());
  EXPECT_TRUE(facts.devices.empty());
  EXPECT_EQ(facts.driver, "");
}

}  // namespace
}  // namespace trireme::cli
