#include "trireme/cli/run_torch.h"

#include <csignal>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::cli {
namespace {

using std::chrono::seconds;

TEST(RunTorch, LooksBesideTheExecutable) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(torch_program(), self.parent_path() / "trireme-torch");
}

TEST(RunTorchProcs, KeepsBothOutputsAndTheCode) {
  const testing::ScratchFolder folder;
  const auto program = folder.program("echo \"$# $2\"; echo bad >&2; exit 3");
  const launch::ChildResult result =
      run_torch(program, {"doctor", "a b; *"}, seconds(20));
  EXPECT_EQ(result.out, "2 a b; *\n");
  EXPECT_EQ(result.err, "bad\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(launch::failure_text(result), "exit code 3: bad");
}

TEST(RunTorchProcs, NamesAProgramThatCannotRun) {
  const testing::ScratchFolder folder;
  const auto plain = folder.write("plain", "text");
  for (const auto& program : {folder.path() / "none", plain, folder.path()})
    try {
      run_torch(program, {}, seconds(20));
      FAIL() << program << " ran";
    } catch (const NotSupported& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("[cli] expected to run ")) << message;
      EXPECT_NE(message.find(program.string()), std::string::npos) << message;
    }
}

TEST(RunTorchProcs, BecomesTheProgram) {
  const testing::ScratchFolder folder;
  const auto program = folder.program("echo \"$1 of $0\" >&2; exit 7");
  EXPECT_EXIT(
      become(program, {"train"}), ::testing::ExitedWithCode(7), "train of .*program");
  EXPECT_EXIT(
      become(folder.program("kill -TERM $$"), {}),
      ::testing::KilledBySignal(SIGTERM),
      "");
}

}  // namespace
}  // namespace trireme::cli
