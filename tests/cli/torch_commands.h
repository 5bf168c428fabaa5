// The commands of trireme-torch, run in this process.
#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/cli/commands.h"
#include "trireme/cli/doctor.h"
#include "trireme/cli/sample.h"
#include "trireme/cli/train.h"

namespace trireme::cli {

/// What a command has left behind.
struct TorchOutcome {
  int code = 0;
  std::string out;
  std::string err;
};

/// Runs the command; `words` without the program's name.
inline TorchOutcome run_torch_command(const std::vector<std::string>& words) {
  std::vector<const char*> pointers{"trireme-torch"};
  for (const std::string& word : words)
    pointers.push_back(word.c_str());
  constexpr AddCommand kCommands[] = {add_train, add_sample, add_doctor};
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code =
      run_commands(kCommands, static_cast<int>(pointers.size()), pointers.data());
  return {
      code,
      ::testing::internal::GetCapturedStdout(),
      ::testing::internal::GetCapturedStderr()};
}

}  // namespace trireme::cli
