#include "trireme/comm/mpi/mpi_backend.h"

#include <cctype>

#include "trireme/comm/flight_recorder.h"
#include "trireme/comm/mpi/mpi_wire.h"
#include "trireme/comm/wire/hosts.h"
#include "trireme/comm/wire/wire_engine.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

void check_same_world(const LaunchEnv& env, const MpiRuntime& runtime) {
  if (runtime.size() != env.world_size)
    throw InvalidArgument(text(
        "[comm] expected MPI to see the ",
        env.world_size,
        " ranks of the launcher's variables, got ",
        runtime.size(),
        env.launcher == Launcher::Slurm
            ? text("; start it with srun --mpi=pmix")
            : text(
                  "; start it with mpirun -n ",
                  env.world_size,
                  " PROGRAM, and with no other launcher's RANK and WORLD_SIZE")));
  if (runtime.rank() != env.rank)
    throw InvalidArgument(text(
        "[comm] expected MPI to see this process as rank ",
        env.rank,
        ", as the launcher's variables do, got rank ",
        runtime.rank(),
        "; unset RANK and WORLD_SIZE under mpirun"));
}

// One job's records must not lie in another's folder.
std::string job_name(const LaunchEnv& env) {
  std::string name = "mpi-";
  for (const char c : env.run_id.empty() ? std::string("alone") : env.run_id)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return name;
}

}  // namespace

bool has_mpi() {
  return true;
}

std::shared_ptr<Engine> start_mpi(const BackendContext& context) {
  return start_mpi(context, MpiSetup{});
}

std::shared_ptr<Engine> start_mpi(const BackendContext& context, MpiSetup setup) {
  MpiRuntime& runtime = MpiRuntime::start(context);
  check_same_world(context.env, runtime);
  setup.local_ranks = context.env.local_world_size;
  setup.flight_folder = flight_folder(job_name(context.env));
  auto flat = std::make_shared<WireEngine>(
      MpiWire::root(std::make_shared<MpiWorld>(runtime, setup), context.deadline));
  if (context.env.one_host())
    return flat;
  return join_hosts(context, std::move(flat));
}

}  // namespace trireme::comm
