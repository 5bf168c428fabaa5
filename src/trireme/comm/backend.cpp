#include "trireme/comm/backend.h"

#include <map>
#include <mutex>

#include "trireme/comm/local/local_world.h"
#include "trireme/comm/mpi/mpi_backend.h"
#include "trireme/comm/shm/shm_world.h"
#include "trireme/comm/tcp/tcp_backend.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::comm {
namespace {

std::shared_ptr<Engine> start_none(const BackendContext& context) {
  if (context.env.world_size != 1)
    throw InvalidArgument(text(
        "[comm] expected one rank for the backend \"none\", got WORLD_SIZE=",
        context.env.world_size,
        "; use \"shm\""));
  return LocalWorld(1).join(0, context.deadline);
}

/// The one list of the process: which code exists is not a property of a world.
struct Registry {
  std::mutex mutex;
  std::map<std::string, BackendFactory> factories{
      {"mpi", start_mpi}, {"none", start_none}, {"shm", start_shm}, {"tcp", start_tcp}};
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

void register_backend(const std::string& name, BackendFactory factory) {
  Registry& known = registry();
  std::lock_guard lock(known.mutex);
  if (name.empty() || !factory || known.factories.contains(name))
    throw InvalidArgument(text(
        "[comm] expected a new backend with a name and a factory, got ",
        in_quotes(name),
        known.factories.contains(name) ? ", which exists already"
        : factory                      ? ""
                                       : " without a factory",
        "; choose another name, or give both"));
  known.factories.emplace(name, std::move(factory));
}

std::vector<std::string> backends() {
  Registry& known = registry();
  std::lock_guard lock(known.mutex);
  std::vector<std::string> names;
  for (const auto& [name, factory] : known.factories)
    names.push_back(name);
  return names;
}

std::string pick_backend(const LaunchEnv& env) {
  if (env.world_size == 1)
    return "none";
  if (env.one_host())
    return "shm";
  const bool under_mpi =
      env.launcher == Launcher::OpenMpi || env.launcher == Launcher::Slurm;
  if (under_mpi && has_mpi())
    return "mpi";
  if (env.has_master())
    return "tcp";
  throw NotSupported(text(
      "[comm] expected all ranks on one host, got ",
      env.local_world_size,
      " of ",
      env.world_size,
      " here; ",
      has_mpi() ? "start ranks of several hosts with mpirun, or set MASTER_ADDR and "
                  "MASTER_PORT for the backend \"tcp\""
                : "for several hosts set MASTER_ADDR and MASTER_PORT for the backend "
                  "\"tcp\", or install libopenmpi-dev and openmpi-bin, configure and "
                  "build again, and start the ranks with mpirun"));
}

std::shared_ptr<Engine> start_backend(
    const std::string& name, const BackendContext& context) {
  BackendFactory factory;
  {
    Registry& known = registry();
    std::lock_guard lock(known.mutex);
    if (const auto found = known.factories.find(name); found != known.factories.end())
      factory = found->second;
  }
  if (!factory) {
    std::string names;
    for (const std::string& one : backends())
      names += (names.empty() ? "" : ", ") + one;
    throw InvalidArgument(text(
        "[comm] expected a backend out of ",
        names,
        ", got ",
        in_quotes(name),
        name == "local" ? "; local ranks are threads: start them with run_local()"
                        : "; see InitOptions::backend and TRIREME_BACKEND"));
  }
  auto engine = factory(context);
  if (!engine)
    throw InvalidArgument(text(
        "[comm] expected the backend ",
        in_quotes(name),
        " to start, got no engine; let its factory return one"));
  return engine;
}

}  // namespace trireme::comm
