#include "trireme/net/rendezvous.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/list_names.h"
#include "trireme/net/file_store.h"
#include "trireme/net/memory_store.h"
#include "trireme/net/store_client.h"
#include "trireme/net/store_server.h"
#include "trireme/net/store_url.h"

namespace trireme::net {
namespace {

/// A store with the server that this process runs for it; the client goes first.
struct HostedStore {
  HostedStore(StoreServerOptions server_options, TcpStoreOptions client_options)
      : server(std::move(server_options)), client(std::move(client_options)) {}
  StoreServer server;
  TcpStore client;
};

/// Options with nothing left open.
struct StorePlan {
  Address address;
  std::optional<int> rank;
  /// Whether a rank hosts it, and not the launcher.
  bool rank_hosts = false;
  Security security;
  std::string job;
  std::uint64_t incarnation = 0;
  std::chrono::milliseconds timeout;
};

std::string name_of(
    const std::string& given, std::optional<int> rank, const char* else_) {
  if (!given.empty())
    return given;
  return rank ? text("rank-", *rank) : else_;
}

std::shared_ptr<Store> open_tcp(
    const StorePlan& plan, const OpenStoreOptions& options) {
  const std::string server_name = name_of(
      options.server_name, plan.rank_hosts ? std::optional(0) : std::nullopt, "store");
  TcpStoreOptions client{
      .server = plan.address,
      .server_name = server_name,
      .server_rank = plan.rank_hosts ? 0 : -1,
      .security = plan.security,
      .name = name_of(options.name, plan.rank, "client"),
      .job = plan.job,
      .incarnation = plan.incarnation,
      .timeout = plan.timeout};
  if (plan.rank_hosts)
    client.heartbeat = options.heartbeat;
  if (!plan.rank_hosts || plan.rank != 0)
    return std::make_shared<TcpStore>(std::move(client));
  StoreServerOptions server{
      .listen = {listen_address(plan.address)},
      .security = plan.security,
      .name = server_name,
      .job = plan.job,
      .incarnation = plan.incarnation,
      .limits = options.limits,
      .tell_gone = true,
      .heartbeat = options.heartbeat};
  client.server = own_address(server.listen.front());
  auto hosted = std::make_shared<HostedStore>(std::move(server), std::move(client));
  return {hosted, &hosted->client};
}

// torchrun's agent listens at MASTER_PORT itself: rank 0 takes the next one.
int store_port(const LaunchEnv& launch, const Environment& env) {
  if (env.has("TRIREME_STORE_PORT"))
    return static_cast<int>(env.integer("TRIREME_STORE_PORT", 1, 65535));
  const bool taken = env.find("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (taken && launch.master_port == 65535)
    throw InvalidArgument(
        "[net] expected a port after MASTER_PORT, at which torchrun's agent listens, "
        "got MASTER_PORT=65535; set TRIREME_STORE_PORT to one that is free on rank 0's "
        "host");
  return launch.master_port + (taken ? 1 : 0);
}

Address master_of(const LaunchEnv& launch, const Environment& env) {
  if (!launch.has_master())
    throw InvalidArgument(
        "[net] expected MASTER_ADDR and MASTER_PORT, or TRIREME_STORE, for a store at "
        "env://, got none; set them to where rank 0 shall host the store");
  return Address::tcp(launch.master_addr, store_port(launch, env));
}

/// The URL in TRIREME_STORE, which the launcher sets for all ranks alike.
std::optional<StoreUrl> launchers_url(const Environment& env) {
  if (!env.find("TRIREME_STORE"))
    return std::nullopt;
  const std::string given = env.string("TRIREME_STORE");
  StoreUrl url = parse_store_url(given);
  if (url.kind == StoreUrl::Kind::Env || url.rank)
    throw InvalidArgument(text(
        "[net] expected TRIREME_STORE to say where the launcher hosts the store, as "
        "tcp://host:port or file:///path without a rank, got ",
        in_quotes(given),
        "; correct it, or unset it to let rank 0 host the store"));
  return url;
}

std::optional<int> rank_of(const StoreUrl& url, const OpenStoreOptions& options) {
  if (url.rank && options.rank && *url.rank != *options.rank)
    throw InvalidArgument(text(
        "[net] expected one rank for the store, got ",
        *url.rank,
        " in its URL and ",
        *options.rank,
        " in the options; leave one of them out"));
  return url.rank ? url.rank : options.rank;
}

}  // namespace

// A host's own name may lead to its loopback address there, where no other host can
// connect. Authentication keeps strangers out.
Address listen_address(const Address& address) {
  if (is_loopback_name(address.host))
    return address;
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return Address::tcp(is_v6 ? "::" : "0.0.0.0", address.port);
}

Address own_address(const Address& listens) {
  if (listens.host == "::")
    return Address::tcp("::1", listens.port);
  return listens.host == "0.0.0.0" ? Address::tcp("127.0.0.1", listens.port) : listens;
}

std::shared_ptr<Store> open_store(std::string_view given, OpenStoreOptions options) {
  StoreUrl url = parse_store_url(given);
  const bool from_env = url.kind == StoreUrl::Kind::Env;
  const LaunchEnv launch = from_env ? read_launch_env(options.env) : LaunchEnv();
  bool launcher_hosts = false;
  if (from_env) {
    if (auto launchers = launchers_url(options.env)) {
      url = *launchers;
      launcher_hosts = true;
    } else if (launch.world_size == 1 && !launch.has_master()) {
      return std::make_shared<MemoryStore>(
          MemoryStoreOptions{.limits = options.limits});
    } else {
      url = {.kind = StoreUrl::Kind::Tcp, .address = master_of(launch, options.env)};
    }
    url.rank = launch.rank;
  }
  const auto timeout = options.timeout.value_or(read_timeout(options.env));
  if (url.kind == StoreUrl::Kind::File)
    return std::make_shared<FileStore>(
        url.path, FileStoreOptions{.limits = options.limits, .timeout = timeout});
  const std::optional<int> rank = rank_of(url, options);
  return open_tcp(
      {.address = url.address,
       .rank = rank,
       .rank_hosts = rank && !launcher_hosts,
       .security = options.security ? *options.security
                                    : Security::from_environment(options.env),
       .job = options.job.value_or(launch.run_id),
       .incarnation = options.incarnation.value_or(
           static_cast<std::uint64_t>(launch.restart_count)),
       .timeout = timeout},
      options);
}

namespace {

std::vector<std::string> missing_ranks(Store& store, int world_size) {
  const std::vector<std::string> there = store.keys("join/");
  std::vector<std::string> missing;
  for (int rank = 0; rank < world_size; ++rank)
    if (!std::binary_search(there.begin(), there.end(), text("join/", rank)))
      missing.push_back(std::to_string(rank));
  return missing;
}

using JoinCheck = std::function<void()>;

// How long a wait goes on before it asks whether it is in vain.
constexpr auto kCheck = std::chrono::milliseconds(250);

std::string value_of_rank(
    Store& store, const std::string& key, Deadline deadline, const JoinCheck& check) {
  if (!check)
    return store.get(key, deadline);
  while (deadline.remaining() > kCheck)
    try {
      check();
      return store.get(key, Deadline::after(kCheck));
    } catch (const TimeoutError&) {
    }
  return store.get(key, deadline);
}

/// Waits for the ranks one after the other: a wait for all at once would be as long in
/// the store as the world is large, for every rank.
std::vector<std::string> values_of_ranks(
    Store& store, int world_size, Deadline deadline, const JoinCheck& check) {
  std::vector<std::string> values;
  for (int rank = 0; rank < world_size; ++rank)
    values.push_back(value_of_rank(store, text("join/", rank), deadline, check));
  return values;
}

}  // namespace

std::vector<std::string> join(
    Store& store,
    int world_size,
    int rank,
    std::string_view value,
    Deadline deadline,
    const std::function<void()>& check) {
  if (rank < 0 || rank >= world_size)
    throw InvalidArgument(text(
        "[net] expected a rank from 0 to ",
        world_size - 1,
        " to join, got ",
        rank,
        "; ranks count from 0"));
  const StoreSwap own = store.compare_set(text("join/", rank), std::nullopt, value);
  if (own.value != value)
    throw InvalidArgument(text(
        "[net] expected to be the only rank ",
        rank,
        " that joins, got another one with ",
        in_quotes(own.value.value_or("")),
        "; give each process its own rank, and each round its own PrefixStore"));
  try {
    return values_of_ranks(store, world_size, deadline, check);
  } catch (const TimeoutError&) {
    const std::vector<std::string> missing = missing_ranks(store, world_size);
    if (missing.empty())  // they came at the last moment
      return values_of_ranks(store, world_size, deadline, check);
    throw TimeoutError(text(
        "[net] expected all of ",
        world_size,
        " ranks to join within ",
        deadline.allowed().count(),
        " ms, got ",
        world_size - static_cast<int>(missing.size()),
        ", without ",
        missing.size() == 1 ? "rank " : "ranks ",
        list_names(missing),
        "; check that they have started, still run, and use the same store"));
  }
}

}  // namespace trireme::net
