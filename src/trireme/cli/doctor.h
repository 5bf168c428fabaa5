// The part of `trireme doctor` that needs libtorch, and the reading of flight records.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trireme::cli {

/// A backend that Trireme plans or has, and is not in this build.
struct AbsentBackend {
  std::string name;
  /// What it is for, and what to do without it.
  std::string advice;
};

/// What this build is made of.
struct TorchFacts {
  /// Of the libtorch that is loaded, and of the headers that Trireme was compiled with.
  std::string version;
  std::string compiled_version;
  /// The file of the library.
  std::string library;
  int threads = 1;
  int interop_threads = 1;
  /// Whether libtorch was built with CUDA, and whether this process can use it.
  bool cuda_built = false;
  bool cuda_usable = false;
  std::vector<std::string> backends;
  std::vector<AbsentBackend> absent;
  /// The instruction set of the reductions: "avx512".
  std::string kernels;
};

/// This process's libtorch and Trireme.
TorchFacts gather_torch_facts();

/// The facts for people, a line or more each.
std::string to_text(const TorchFacts& facts);

/// The facts for machines: one JSON object on one line.
std::string to_json(const TorchFacts& facts);

/// Adds the command `doctor`, which prints the facts, or compares flight records.
void add_doctor(CLI::App& app, int& exit_code);

}  // namespace trireme::cli
