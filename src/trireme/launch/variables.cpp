#include "trireme/launch/variables.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/machine.h"

namespace trireme::launch {
namespace {

LaunchRole role_in(const JobPlace& place, int world_rank) {
  if (!place.roles.empty())
    return role_of(place.roles, world_rank);
  return {.rank = world_rank, .size = place.ranks};
}

}  // namespace

bool has_security(const Environment& env) {
  return std::any_of(
      std::begin(kSecurityVariables),
      std::end(kSecurityVariables),
      [&](const char* name) { return env.has(name); });
}

Environment::Variables rank_variables(
    const JobPlace& place,
    int rank,
    const Environment& inherited,
    const Environment::Variables& extra) {
  Environment::Variables all = inherited.merged(extra);
  const LaunchRole role = role_in(place, place.first_rank + rank);
  const std::pair<const char*, std::string> torchrun[] = {
      {"RANK", text(place.first_rank + rank)},
      {"LOCAL_RANK", text(rank)},
      {"ROLE_RANK", text(role.rank)},
      {"GROUP_RANK", text(place.node)},
      {"WORLD_SIZE", text(place.ranks)},
      {"LOCAL_WORLD_SIZE", text(place.local_ranks)},
      {"ROLE_WORLD_SIZE", text(role.size)},
      {"GROUP_WORLD_SIZE", text(place.nodes)},
      {"ROLE_NAME", role.name},
      {"MASTER_ADDR", place.master_addr},
      {"MASTER_PORT", text(place.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", text(place.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", text(place.max_restarts)},
      {"TORCHELASTIC_RUN_ID", place.run_id},
      // Nobody listens at MASTER_PORT before rank 0 does: a PyTorch program has to make
      // its store itself.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  for (const auto& [name, value] : torchrun)
    all.insert_or_assign(name, value);
  // Those of a job around this one lead to another store.
  all.erase("TRIREME_STORE_PORT");
  all.erase("TRIREME_STORE");
  if (!place.store.empty())
    all["TRIREME_STORE"] = place.store;
  if (!place.job_key.empty()) {
    for (const char* name : kSecurityVariables)
      all.erase(name);
    all["TRIREME_JOB_KEY"] = place.job_key;
  }
  all.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  all.try_emplace(
      "OMP_NUM_THREADS", text(threads_per_rank(place.cores, place.local_ranks)));
  // Most of a rank's start is libtorch filling the heap with its list of operators:
  // with huge pages that takes a sixth less time.
  all.try_emplace("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
  // A thread that spins for work keeps another rank off its core.
  if (place.local_ranks > place.cores)
    all.try_emplace("OMP_WAIT_POLICY", "PASSIVE");
  return all;
}

LaunchEnv launch_env(const JobPlace& place) {
  return {
      .launcher = Launcher::Torchrun,
      .rank = place.first_rank,
      .world_size = place.ranks,
      .local_world_size = place.local_ranks,
      .master_addr = place.master_addr,
      .master_port = place.master_port,
      .run_id = place.run_id,
      .restart_count = place.restart_count};
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  const bool found = socket >= 0 && ::bind(socket, any, length) == 0 &&
                     ::getsockname(socket, any, &length) == 0;
  const int code = errno;
  if (socket >= 0)
    ::close(socket);
  if (!found)
    throw Error(text(
        "[launch] expected a free port, got ",
        errno_text(code),
        "; see that this process may open sockets (ulimit -n)"));
  return ntohs(address.sin_port);
}

std::string fresh_run_id() {
  static std::atomic<int> count{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return text("run-", ::getpid(), "-", now, "-", ++count);
}

}  // namespace trireme::launch
