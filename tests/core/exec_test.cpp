#include "trireme/core/exec.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Exec, PointersEndWithNull) {
  const std::vector<std::string> words{"a", "b c", ""};
  const auto pointers = exec_pointers(words);
  ASSERT_EQ(pointers.size(), 4U);
  EXPECT_EQ(pointers[1], words[1].c_str());
  EXPECT_EQ(pointers[3], nullptr);
}

TEST(Exec, VariablesBecomeLines) {
  EXPECT_EQ(
      variable_lines({{"A", "1"}, {"B", "x=y"}}),
      (std::vector<std::string>{"A=1", "B=x=y"}));
}

TEST(ExecProcs, AFailureSaysWhyAndExitsAsAShellDoes) {
  EXPECT_EXIT(
      {
        errno = ENOENT;
        exec_failed("[test] ", "./oar");
      },
      ::testing::ExitedWithCode(127),
      "\\[test\\] cannot start ./oar: No such file or directory");
}

}  // namespace
}  // namespace trireme
