#include "trireme/cli/run_torch.h"

#include <cerrno>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/exec.h"

namespace trireme::cli {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& program, const std::string& why) {
  throw NotSupported(text(
      "[cli] expected to run ",
      escaped(program.string()),
      ", got ",
      why,
      "; build it (./trireme does), or install it beside trireme"));
}

void check_program(const std::filesystem::path& program) {
  if (::access(program.c_str(), F_OK) != 0)
    refuse(program, errno_text(errno));
  std::error_code error;
  if (!std::filesystem::is_regular_file(program, error) ||
      ::access(program.c_str(), X_OK) != 0)
    refuse(program, "something that is no executable file");
}

// The program and its arguments.
std::vector<std::string> command_of(
    const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{program.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace

std::filesystem::path torch_program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    throw NotSupported(text(
        "[cli] expected to read /proc/self/exe, got ",
        error.message(),
        "; mount /proc"));
  return self.parent_path() / "trireme-torch";
}

void become(
    const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  check_program(program);
  const auto command = command_of(program, arguments);
  ::execv(program.c_str(), exec_pointers(command).data());
  refuse(program, errno_text(errno));
}

launch::ChildResult run_torch(
    const std::filesystem::path& program,
    const std::vector<std::string>& arguments,
    std::chrono::milliseconds limit) {
  check_program(program);
  return launch::run_child(
      {.command = command_of(program, arguments), .variables = {}, .limit = limit});
}

}  // namespace trireme::cli
