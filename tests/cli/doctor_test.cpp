#include "trireme/cli/doctor.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/version.h>

#include "torch_commands.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::cli {
namespace {

TEST(Doctor, KnowsThisBuild) {
  const TorchFacts facts = gather_torch_facts();
  EXPECT_TRUE(std::string(TORCH_VERSION).starts_with(facts.version)) << facts.version;
  EXPECT_TRUE(std::filesystem::exists(facts.library)) << facts.library;
  EXPECT_GE(facts.threads, 1);
  EXPECT_EQ(std::count(facts.backends.begin(), facts.backends.end(), "shm"), 1);
  for (const AbsentBackend& one : facts.absent)
    EXPECT_EQ(std::count(facts.backends.begin(), facts.backends.end(), one.name), 0);
  EXPECT_FALSE(facts.kernels.empty());
}

TEST(Doctor, SaysWhatIsThereAndWhatNot) {
  const TorchFacts facts{
      .version = "2.13.0",
      .compiled_version = "2.11.0",
      .library = "/lib/libtorch_cpu.so",
      .threads = 4,
      .interop_threads = 2,
      .cuda_built = true,
      .backends = {"none", "shm", "x"},
      .absent = {{"tcp", "get it"}},
      .kernels = "avx2"};
  EXPECT_EQ(
      to_text(facts),
      "libtorch        2.13.0, /lib/libtorch_cpu.so\n"
      "                but Trireme was compiled for 2.11.0\n"
      "threads         4 within an operation (OMP_NUM_THREADS), 2 between operations\n"
      "CUDA            in this libtorch, but not usable here\n"
      "backends        none (one rank), shm (processes of one host), x, local "
      "(threads, by "
      "run_local())\n"
      "                no tcp: get it\n"
      "reductions      avx2 kernels\n");
  const auto json = nlohmann::json::parse(to_json(facts));
  EXPECT_EQ(json["libtorch"], "2.13.0");
  EXPECT_EQ(json["absent_backends"]["tcp"], "get it");
  EXPECT_EQ(json["backends"].size(), 3U);
}

const char* const kRecord =
    R"({"format": "trireme flight 1", "rank": 0, "size": 2, "written_by": 0,
        "reason": "why", "calls": []})";

TEST(Doctor, ReadsFlightRecords) {
  const testing::ScratchFolder folder;
  folder.write("rank_0.json", kRecord);
  const std::string path = folder.path().string();
  const TorchOutcome outcome =
      run_torch_command({"doctor", "--json", "--flight", path});
  EXPECT_EQ(outcome.code, 0);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["records"], 1);
  EXPECT_EQ(json["notes"][1], "no record of rank 1 of 2");
  EXPECT_TRUE(json["findings"].empty());
}

}  // namespace
}  // namespace trireme::cli
