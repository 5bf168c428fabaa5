#include "trireme/core/launch_env.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/machine.h"
#include "trireme/core/parse_number.h"
#include "trireme/core/slurm.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxWorld = 1'000'000;

int read_int(
    const Environment& env, std::string_view name, std::int64_t min, std::int64_t max) {
  return static_cast<int>(env.integer(name, min, max));
}

int read_rank(const Environment& env, std::string_view name) {
  return read_int(env, name, 0, kMaxWorld - 1);
}

int read_size(const Environment& env, std::string_view name) {
  return read_int(env, name, 1, kMaxWorld);
}

int read_count(const Environment& env, std::string_view name) {
  return env.has(name) ? read_int(env, name, 0, 1'000'000'000) : 0;
}

bool is_loopback(std::string_view address) {
  return address == "localhost" || address == "::1" || address == "[::1]" ||
         (address.starts_with("127.") &&
          address.find_first_not_of("0123456789.") == std::string_view::npos);
}

bool on_loopback(const Environment& env) {
  const auto address = env.find("MASTER_ADDR");
  return !address || is_loopback(*address);
}

std::string read_address(const Environment& env) {
  const std::string address = env.string("MASTER_ADDR");
  // A blank or a control character here is a slip in a script; a resolver would only
  // say that there is no such host.
  const auto good = [](unsigned char c) { return c > ' ' && c != 0x7f; };
  if (!std::all_of(address.begin(), address.end(), good)) {
    throw InvalidArgument(text(
        "[core] expected MASTER_ADDR to be a host name or address without blanks, got ",
        in_quotes(address),
        "; correct it or unset it"));
  }
  return address;
}

int read_port(const Environment& env) {
  return read_int(env, "MASTER_PORT", 1, 65535);
}

// The address is filled in only on one host: on many, loopback would be wrong.
void read_optional_master(const Environment& env, LaunchEnv& launch) {
  if (env.has("MASTER_ADDR")) {
    launch.master_addr = read_address(env);
  } else if (!launch.one_host()) {
    launch.master_addr.clear();
  }
  if (env.has("MASTER_PORT")) {
    launch.master_port = read_port(env);
  }
}

// The four names of a launcher, so that messages name the right variables.
struct Names {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};
constexpr Names kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kSlurm{
    "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "the tasks on this node"};

void require_below(const char* name, int value, const char* limit_name, int limit) {
  if (value >= limit) {
    throw InvalidArgument(text(
        "[core] expected ",
        name,
        " below ",
        limit_name,
        "=",
        limit,
        ", got ",
        value,
        "; ranks count from 0, so correct one of the two"));
  }
}

void check_consistent(const LaunchEnv& launch, const Names& names) {
  require_below(names.rank, launch.rank, names.world_size, launch.world_size);
  if (launch.local_world_size > launch.world_size) {
    throw InvalidArgument(text(
        "[core] expected ",
        names.local_world_size,
        " at most ",
        names.world_size,
        "=",
        launch.world_size,
        ", got ",
        launch.local_world_size,
        "; it counts the ranks on this host only"));
  }
  require_below(
      names.local_rank,
      launch.local_rank,
      names.local_world_size,
      launch.local_world_size);
}

// A local variable that may be left out only where all ranks must be on one host.
int read_local(
    const Environment& env, const char* name, int fallback, bool one_host, int min) {
  if (env.has(name)) {
    return read_int(env, name, min, kMaxWorld);
  }
  if (!one_host) {
    throw InvalidArgument(text(
        "[core] expected ",
        name,
        ", got none: it is not set while MASTER_ADDR=",
        in_quotes(env.find("MASTER_ADDR").value_or("")),
        " lets ranks be on several hosts; set it, or set MASTER_ADDR=127.0.0.1 if "
        "there is one host"));
  }
  return fallback;
}

LaunchEnv read_torchrun(const Environment& env) {
  LaunchEnv launch{.launcher = Launcher::Torchrun};
  launch.rank = read_rank(env, kTorchrun.rank);
  launch.world_size = read_size(env, kTorchrun.world_size);
  const bool one_host = launch.world_size == 1 || on_loopback(env);
  launch.local_rank = read_local(env, kTorchrun.local_rank, launch.rank, one_host, 0);
  launch.local_world_size =
      read_local(env, kTorchrun.local_world_size, launch.world_size, one_host, 1);
  check_consistent(launch, kTorchrun);
  if (env.has("MASTER_ADDR") || !launch.one_host()) {
    launch.master_addr = read_address(env);
  }
  if (env.has("MASTER_PORT") || launch.world_size > 1) {
    launch.master_port = read_port(env);
  }
  if (env.has("TORCHELASTIC_RUN_ID")) {
    launch.run_id = env.string("TORCHELASTIC_RUN_ID");
  }
  launch.restart_count = read_count(env, "TORCHELASTIC_RESTART_COUNT");
  return launch;
}

// What launchers of whole clusters tell alike; `local_size` finds the number of ranks
// on this host, given that of all.
template <class LocalSize>
LaunchEnv read_cluster(
    const Environment& env,
    Launcher launcher,
    const Names& names,
    const LocalSize& local_size) {
  LaunchEnv launch{.launcher = launcher};
  launch.rank = read_rank(env, names.rank);
  launch.world_size = read_size(env, names.world_size);
  launch.local_rank = read_rank(env, names.local_rank);
  launch.local_world_size = local_size(env, launch.world_size);
  check_consistent(launch, names);
  read_optional_master(env, launch);
  return launch;
}

LaunchEnv read_open_mpi(const Environment& env) {
  LaunchEnv launch =
      read_cluster(env, Launcher::OpenMpi, kOpenMpi, [](const auto& from, int) {
        return read_size(from, kOpenMpi.local_world_size);
      });
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    if (launch.run_id.empty() && env.has(name)) {
      launch.run_id = env.string(name);
    }
  }
  if (launch.run_id.empty() && launch.world_size > 1 && launch.master_port == 0) {
    throw InvalidArgument(
        "[core] expected PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid or MASTER_PORT to "
        "tell "
        "this job from others, but none is set; start with mpirun -x "
        "MASTER_PORT=29500");
  }
  return launch;
}

LaunchEnv read_slurm(const Environment& env) {
  LaunchEnv launch = read_cluster(env, Launcher::Slurm, kSlurm, slurm_local_size);
  launch.run_id = env.string("SLURM_JOB_ID") + "." + env.string("SLURM_STEP_ID");
  launch.restart_count = read_count(env, "SLURM_RESTART_COUNT");
  return launch;
}

}  // namespace

const char* to_string(Launcher launcher) {
  switch (launcher) {
    case Launcher::None:
      return "none";
    case Launcher::Torchrun:
      return "torchrun";
    case Launcher::OpenMpi:
      return "OpenMPI";
    case Launcher::Slurm:
      return "Slurm";
  }
  return "unknown";
}

LaunchEnv LaunchEnv::on_this_host() const {
  LaunchEnv here = *this;
  if (one_host())
    return here;
  here.run_id += text("/from rank ", rank - local_rank);
  here.rank = local_rank;
  here.world_size = local_world_size;
  return here;
}

LaunchEnv read_launch_env(const Environment& env) {
  if (env.has(kTorchrun.rank) || env.has(kTorchrun.world_size)) {
    return read_torchrun(env);
  }
  if (env.has(kOpenMpi.rank) || env.has(kOpenMpi.world_size)) {
    return read_open_mpi(env);
  }
  return in_slurm_step(env) ? read_slurm(env) : LaunchEnv{};
}

LaunchRole read_launch_role(const Environment& env) {
  const LaunchEnv launch = read_launch_env(env);
  LaunchRole role{.rank = launch.rank, .size = launch.world_size};
  const bool told =
      env.has("ROLE_NAME") || env.has("ROLE_RANK") || env.has("ROLE_WORLD_SIZE");
  if (launch.launcher != Launcher::Torchrun || !told)
    return role;
  role.name = env.string("ROLE_NAME");
  role.rank = read_rank(env, "ROLE_RANK");
  role.size = read_size(env, "ROLE_WORLD_SIZE");
  require_below("ROLE_RANK", role.rank, "ROLE_WORLD_SIZE", role.size);
  if (role.size > launch.world_size)
    throw InvalidArgument(text(
        "[core] expected ROLE_WORLD_SIZE at most WORLD_SIZE=",
        launch.world_size,
        ", got ",
        role.size,
        "; it counts the ranks of one role"));
  return role;
}

int rank_threads(const Environment& env, int cores, int launcher_cores) {
  // A list is for nested regions; its first number is what counts here.
  const std::string_view set = env.find("OMP_NUM_THREADS").value_or("");
  constexpr int kMostThreads = 4096;
  if (const auto threads = parse_number<int>(set.substr(0, set.find(',')));
      threads && *threads >= 1 && *threads <= kMostThreads) {
    return *threads;
  }
  const LaunchEnv place = read_launch_env(env);
  const bool may_be_bound =
      place.launcher == Launcher::OpenMpi || place.launcher == Launcher::Slurm;
  const int shared = may_be_bound ? std::max(cores, launcher_cores) : cores;
  return std::min(cores, threads_per_rank(shared, place.local_world_size));
}

std::chrono::milliseconds read_timeout(const Environment& env) {
  using namespace std::chrono;
  return env.seconds_or("TRIREME_TIMEOUT", minutes(5), hours(24));
}

std::chrono::milliseconds read_heartbeat(const Environment& env) {
  using namespace std::chrono;
  const auto time = env.seconds_or("TRIREME_HEARTBEAT", seconds(10), hours(24));
  if (time < seconds(1))
    throw InvalidArgument(text(
        "[core] expected TRIREME_HEARTBEAT to be at least 1 second, got ",
        env.string("TRIREME_HEARTBEAT"),
        "; a rank that computes on all cores may be silent for a while"));
  return time;
}

}  // namespace trireme
