// The program that ranks are to run, found before anything is started.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trireme::launch {

/// The path of the executable file for `name`: itself if it has a slash, else the first
/// in `path` (a list as in PATH). InvalidArgument says why there is none.
///
///     find_program("./train", "");          // "./train"
///     find_program("env", "/bin:/usr/bin"); // "/bin/env"
std::string find_program(const std::string& name, std::string_view path);

}  // namespace trireme::launch
