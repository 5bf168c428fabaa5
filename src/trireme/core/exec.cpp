#include "trireme/core/exec.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme {

std::vector<char*> exec_pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const std::string& word : words) {
    list.push_back(const_cast<char*>(word.c_str()));
  }
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> variable_lines(const Environment::Variables& variables) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) {
    lines.push_back(text(name, "=", value));
  }
  return lines;
}

void exec_failed(const char* prefix, const char* program) {
  constexpr int kCannotStart = 127;
  const char* reason = ::strerrordesc_np(errno);
  for (const char* part :
       {prefix,
        "cannot start ",
        program,
        ": ",
        reason != nullptr ? reason : "unknown error",
        "\n"}) {
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) {
      break;
    }
  }
  ::_exit(kCannotStart);
}

}  // namespace trireme
