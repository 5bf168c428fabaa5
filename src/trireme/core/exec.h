// What a program needs on its way to exec, made before the fork: in the child of a
// program with threads nothing may be allocated.
#pragma once
#include <string>
#include <vector>

#include "trireme/core/environment.h"

namespace trireme {

/// The words as exec takes them, with the null at the end; they live as long as
/// `words`.
std::vector<char*> exec_pointers(const std::vector<std::string>& words);

/// The variables as exec takes them: "NAME=value".
std::vector<std::string> variable_lines(const Environment::Variables& variables);

/// What a child does whose exec has failed: says on stderr why `program` cannot start,
/// after `prefix`, and exits with 127, as a shell does.
[[noreturn]] void exec_failed(const char* prefix, const char* program);

}  // namespace trireme
