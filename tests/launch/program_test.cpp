#include "trireme/launch/program.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {
namespace {

std::string refusal(const std::string& name, const std::string& path = "/bin") {
  try {
    return "found " + find_program(name, path);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

const std::string kWanted = "[launch] expected a program that can be run, got ";
const std::string kCorrect = "; correct the name or the path";

TEST(FindProgram, TakesAPathAsItIs) {
  const testing::ScratchFolder folder;
  const std::string file = folder.program("exit 0");
  EXPECT_EQ(find_program(file, ""), file);
}

TEST(FindProgram, LooksAlongThePath) {
  const testing::ScratchFolder folder;
  folder.program("exit 0");
  folder.write("plain/program", "not executable");
  std::filesystem::create_directories(folder.path() / "other" / "program");
  const std::string here = folder.path();
  const std::string path =
      text("/nonexistent:", here, "/plain:", here, "/other:", here, ":/bin");
  EXPECT_EQ(find_program("program", path), here + "/program");
  EXPECT_EQ(find_program("sh", "/bin:/usr/bin"), "/bin/sh");
}

TEST(FindProgram, AnEmptyEntryIsTheFolderOfNow) {
  const testing::ScratchFolder folder;
  folder.program("exit 0");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(find_program("program", "/nonexistent::/bin"), "./program");
  EXPECT_EQ(find_program("program", ":/bin"), "./program");
  EXPECT_EQ(
      refusal("program"),
      kWanted +
          "\"program\": it is not in PATH; for the one in this folder write "
          "./program");
  std::filesystem::current_path(before);
}

TEST(FindProgram, SaysWhyThereIsNone) {
  const testing::ScratchFolder folder;
  const std::string plain = folder.write("plain", "text");
  const std::string here = folder.path();
  EXPECT_EQ(
      refusal("no-such-program"),
      kWanted + "\"no-such-program\": it is not in PATH" + kCorrect);
  EXPECT_EQ(refusal(""), kWanted + "\"\": it is not in PATH" + kCorrect);
  EXPECT_EQ(refusal("/no/such"), kWanted + "\"/no/such\": no such file" + kCorrect);
  EXPECT_NE(refusal(here).find(": a folder"), std::string::npos) << refusal(here);
  EXPECT_NE(
      refusal(plain).find(": a file that is not executable (chmod +x"),
      std::string::npos)
      << refusal(plain);
  EXPECT_NE(refusal(plain + "/x").find("Not a directory"), std::string::npos);
  EXPECT_NE(refusal("/dev/null").find("not executable"), std::string::npos);
}

TEST(FindProgram, EscapesOddNames) {
  EXPECT_EQ(refusal("a\nb"), kWanted + "\"a\\nb\": it is not in PATH" + kCorrect);
}

}  // namespace
}  // namespace trireme::launch
