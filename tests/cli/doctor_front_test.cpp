#include "trireme/cli/doctor_front.h"

#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/testing/scratch_folder.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

DoctorFacts some_facts() {
  return {
      .machine = {.cpu = "Abacus", .cores = 2, .memory_bytes = 4ULL << 30},
      .load = 0.5,
      .shared_memory =
          SharedMemoryLimits{.total_bytes = 2ULL << 30, .free_bytes = 1 << 20},
      .left = {{.name = "trireme-1\n", .owner = "ann", .bytes = 4096}},
      .gpus = {.devices = {"/dev/nvidia0"}, .models = {"H200"}, .driver = "570"},
      .launch =
          LaunchEnv{
              .launcher = Launcher::Torchrun,
              .rank = 1,
              .world_size = 4,
              .local_rank = 1,
              .local_world_size = 2,
              .master_addr = "host",
              .master_port = 29500,
              .run_id = "r"},
      .variables = {
          {.name = "TRIREME_LOG",
           .value = "l\x1b",
           .reader = "the log",
           .problem = "no"}}};
}

TEST(DoctorFront, SaysWhatItKnows) {
  EXPECT_EQ(
      to_text(some_facts()),
      std::string("Trireme         ") + std::string(kVersion) +
          "\n"
          "machine         Abacus, 2 cores, 4.0 GiB; load 0.50 over the last minute\n"
          "shared memory   /dev/shm, 2.0 GiB, 1.0 MiB of it free; Trireme's are "
          "there:\n"
          "                trireme-1\\n, 4.0 KiB, owner ann\n"
          "                (each is of a job whose ranks still meet, or that died "
          "meeting; "
          "the owner's next job removes the dead)\n"
          "GPU             /dev/nvidia0, H200\n"
          "GPU driver      570\n"
          "launcher        torchrun: rank 1 of 4, on this host 1 of 2, meeting at "
          "host:29500, run r\n"
          "variables       TRIREME_LOG=l\\x1b\n"
          "                  read by the log\n"
          "                  wrong: no\n");
}

TEST(DoctorFront, SaysWhatIsNotThere) {
  DoctorFacts facts;
  facts.shared_memory_problem = "[core] none";
  facts.launch_problem = "[core] expected RANK";
  const std::string out = to_text(facts);
  EXPECT_NE(out.find("shared memory   [core] none\n"), std::string::npos) << out;
  EXPECT_NE(out.find("GPU             none (no /dev/nvidia0 …)\n"), std::string::npos);
  EXPECT_NE(
      out.find("launcher        wrong: [core] expected RANK\n"), std::string::npos);
  EXPECT_NE(
      out.find("variables       no TRIREME_*, NCCL_* or GLOO_* is set\n"),
      std::string::npos);
}

TEST(DoctorFront, GivesTheSameToMachines) {
  const auto json = nlohmann::json::parse(to_json(some_facts(), "{\"threads\":2}", ""));
  EXPECT_EQ(json["version"], std::string(kVersion));
  EXPECT_EQ(json["machine"]["cores"], 2);
  EXPECT_EQ(json["shared_memory"]["left"][0]["owner"], "ann");
  EXPECT_EQ(json["gpu"]["models"][0], "H200");
  EXPECT_EQ(json["launcher"]["world_size"], 4);
  EXPECT_EQ(json["variables"][0]["problem"], "no");
  EXPECT_EQ(json["torch"]["threads"], 2);
}

TEST(DoctorFront, TellsMachinesOfProblems) {
  DoctorFacts facts;
  facts.shared_memory_problem = "none";
  facts.launch_problem = "bad";
  const auto json = nlohmann::json::parse(to_json(facts, "", "it failed"));
  EXPECT_EQ(json["shared_memory"]["problem"], "none");
  EXPECT_EQ(json["launcher"]["problem"], "bad");
  EXPECT_EQ(json["torch"]["problem"], "it failed");
}

TEST(DoctorFront, ReadsTheLauncherAndItsErrors) {
  const auto good = gather_facts(
      Environment{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TRIREME_LOG", "info"}});
  ASSERT_TRUE(good.launch);
  EXPECT_EQ(good.launch->world_size, 1);
  EXPECT_EQ(good.variables.size(), 1U);
  EXPECT_GE(good.machine.cores, 1);
  const auto bad = gather_facts(Environment{{"RANK", "x"}, {"WORLD_SIZE", "1"}});
  EXPECT_FALSE(bad.launch);
  EXPECT_NE(bad.launch_problem.find("RANK"), std::string::npos);
}

TEST(DoctorFrontProcs, AddsThePartOfTorch) {
  const testing::ScratchFolder folder;
  std::ostringstream out, err;
  const DoctorFrontOptions options{
      .torch_program = folder.program("echo \"libtorch $1\"")};
  EXPECT_EQ(doctor_front(options, out, err), 0);
  EXPECT_TRUE(out.str().starts_with("Trireme  ")) << out.str();
  EXPECT_TRUE(out.str().ends_with("libtorch doctor\n")) << out.str();
  EXPECT_EQ(err.str(), "");
}

TEST(DoctorFrontProcs, SpeaksAlsoWithoutLibtorch) {
  const testing::ScratchFolder folder;
  const auto program = folder.program("echo 'no libtorch.so' >&2; exit 127");
  std::ostringstream out, err, json;
  EXPECT_EQ(doctor_front({.torch_program = program}, out, err), 1);
  EXPECT_NE(out.str().find("machine  "), std::string::npos);
  EXPECT_EQ(
      err.str(), "trireme: trireme-torch failed: exit code 127: no libtorch.so\n");
  EXPECT_EQ(doctor_front({.json = true, .torch_program = program}, json, err), 1);
  EXPECT_EQ(
      nlohmann::json::parse(json.str())["torch"]["problem"],
      "trireme-torch failed: exit code 127: no libtorch.so");
}

TEST(DoctorFrontProcs, DoesNotPassOnWhatIsNoJson) {
  const testing::ScratchFolder folder;
  std::ostringstream out, err;
  EXPECT_EQ(
      doctor_front(
          {.json = true, .torch_program = folder.program("echo hi")}, out, err),
      1);
  EXPECT_TRUE(nlohmann::json::parse(out.str()).is_object());
  EXPECT_EQ(doctor_front({.torch_program = folder.path() / "none"}, out, err), 1);
}

}  // namespace
}  // namespace trireme::cli
