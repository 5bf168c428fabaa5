// The list of backends: the built-in ones, and those that a program adds.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/core/launch_env.h"

namespace trireme::comm {

/// What a backend is given to start this rank's engine.
struct BackendContext {
  LaunchEnv env;
  /// For meeting the other ranks.
  Deadline deadline;
};

using BackendFactory = std::function<std::shared_ptr<Engine>(const BackendContext&)>;

/// Adds a backend that init() finds by name. The conformance suite (trireme::testing)
/// tells whether it does what the others do.
///
///     comm::register_backend("pigeon", [](const BackendContext& context) {
///       return std::make_shared<PigeonEngine>(context.env);
///     });
void register_backend(const std::string& name, BackendFactory factory);

/// The names that init() knows, in alphabetical order.
std::vector<std::string> backends();

/// The name of the backend that fits: "none" for one rank, "shm" for ranks of one host,
/// "mpi" for ranks of several that mpirun or srun has started, else "tcp" where there
/// is an address to meet at. NotSupported says what is needed where there is none.
std::string pick_backend(const LaunchEnv& env);

/// Starts an engine; InvalidArgument lists the known names if there is no such backend.
std::shared_ptr<Engine> start_backend(
    const std::string& name, const BackendContext& context);

}  // namespace trireme::comm
