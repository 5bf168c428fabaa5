#include "trireme/launch/program.h"

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::launch {
namespace {

// Why the file cannot be run; empty if it can.
std::string obstacle(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0)
    return errno == ENOENT ? "no such file" : errno_text(errno);
  if (S_ISDIR(status.st_mode))
    return "a folder";
  if (!S_ISREG(status.st_mode) || ::access(file.c_str(), X_OK) != 0)
    return "a file that is not executable (chmod +x makes it so)";
  return {};
}

[[noreturn]] void refuse(
    const std::string& name,
    const std::string& got,
    const std::string& remedy = "correct the name or the path") {
  throw InvalidArgument(text(
      "[launch] expected a program that can be run, got ",
      in_quotes(name),
      ": ",
      got,
      "; ",
      remedy));
}

}  // namespace

std::string find_program(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) {
    if (const std::string why = obstacle(name); !why.empty())
      refuse(name, why);
    return name;
  }
  while (!name.empty() && !path.empty()) {
    const size_t colon = std::min(path.find(':'), path.size());
    // An empty entry means the current folder.
    const std::string folder(colon == 0 ? "." : path.substr(0, colon));
    const std::string file = text(folder, "/", name);
    if (obstacle(file).empty())
      return file;
    path.remove_prefix(std::min(colon + 1, path.size()));
  }
  const bool here = !name.empty() && obstacle("./" + name).empty();
  if (here)
    refuse(
        name, "it is not in PATH", text("for the one in this folder write ./", name));
  refuse(name, "it is not in PATH");
}

}  // namespace trireme::launch
