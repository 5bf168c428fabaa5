// `trireme doctor` up to the point where libtorch is needed, so that it has something
// to say also where libtorch cannot be loaded.
#pragma once
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "trireme/cli/machine_facts.h"
#include "trireme/cli/variables.h"
#include "trireme/core/environment.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/machine.h"

namespace trireme::cli {

/// What can be known without libtorch.
struct DoctorFacts {
  Machine machine;
  double load = 0;
  /// Nothing where the host has no shared memory; then `shared_memory_problem` says
  /// why.
  std::optional<SharedMemoryLimits> shared_memory;
  std::string shared_memory_problem;
  std::vector<LeftSegment> left;
  GpuFacts gpus;
  /// The launcher's word, or nothing where it is wrong; then `launch_problem` says why.
  std::optional<LaunchEnv> launch;
  std::string launch_problem;
  std::vector<VariableNote> variables;
};

/// This host, and these variables.
DoctorFacts gather_facts(const Environment& env);

/// The facts for people, a line or more each.
std::string to_text(const DoctorFacts& facts);

/// The facts for machines: one JSON object. `torch` is what trireme-torch says of
/// itself (an object), or, if it failed, how.
std::string to_json(
    const DoctorFacts& facts,
    const std::string& torch,
    const std::string& torch_problem);

struct DoctorFrontOptions {
  bool json = false;
  std::filesystem::path torch_program;
};

/// Prints the facts and those of trireme-torch, which it runs. Gives the exit code: 1
/// if trireme-torch failed.
int doctor_front(
    const DoctorFrontOptions& options, std::ostream& out, std::ostream& err);

}  // namespace trireme::cli
