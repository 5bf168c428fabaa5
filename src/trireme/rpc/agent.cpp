#include "trireme/rpc/agent.h"

#include "trireme/comm/tcp/tcp_backend.h"
#include "trireme/comm/torch_threads.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/log.h"
#include "trireme/net/rendezvous.h"
#include "trireme/rpc/quiet.h"
#include "trireme/rpc/roster.h"

namespace trireme::rpc {

namespace {

// What the launcher says, for all that the options leave out.
void fill_in(AgentOptions& options) {
  const Environment env = Environment::of_process();
  if (!options.role)
    options.role = read_launch_role(env).name;
  if (!options.transport)
    options.transport.emplace();
  NodeTransportOptions& transport = *options.transport;
  if (options.rank && options.world_size && options.store)
    return;
  const LaunchEnv launch = read_launch_env(env);
  if (!options.rank)
    options.rank = launch.rank;
  if (!options.world_size)
    options.world_size = launch.world_size;
  transport.job = launch.run_id;
  transport.incarnation = static_cast<std::uint64_t>(launch.restart_count);
  if (!options.store)
    options.store = net::open_store(
        "env://", {.env = env, .security = transport.security, .rank = *options.rank});
  if (transport.host.empty() && launch.has_master() && !launch.one_host()) {
    comm::TcpPlace place = comm::tcp_place(launch.master_addr);
    transport.listen = std::move(place.listen);
    transport.host = std::move(place.host);
  }
}

void expect_rank(const AgentOptions& options) {
  if (*options.world_size < 1 || *options.rank < 0 ||
      *options.rank >= *options.world_size)
    throw InvalidArgument(text(
        "[rpc] expected a rank below the size of the world, got rank ",
        *options.rank,
        " of ",
        *options.world_size,
        "; set both, or start the process by `trireme run`"));
}

}  // namespace

Agent::Agent(AgentOptions options) {
  comm::settle_torch_threads();  // before the pool's threads are there
  check_worker_name(options.name);
  fill_in(options);
  expect_rank(options);
  const auto place =
      std::make_shared<net::PrefixStore>(options.world + "/", options.store);
  NodeTransportOptions transport = *options.transport;
  transport.me = {
      .id = *options.rank,
      .name = options.name,
      .role = *options.role,
      .message_bytes = options.message_bytes};
  transport_ = std::make_unique<NodeTransport>(std::move(transport));
  std::vector<Member> members = meet(
      *place,
      transport_->member(),
      *options.world_size,
      Deadline::after(options.meeting));
  store_ = std::make_unique<net::PrefixStore>(
      "end/" + meeting_name(*place, *options.rank) + "/", place);
  AgentCoreOptions core{
      .me = *options.rank,
      .functions = std::move(options.functions),
      .pool = std::move(options.pool),
      .limits = options.limits,
      .timeout = options.timeout,
      .lease = options.lease,
      .calls_per_worker = options.calls_per_worker,
      .bytes_per_worker = options.bytes_per_worker,
      .trace_calls = options.trace_calls,
      .job = options.transport->job.empty() ? options.world : options.transport->job,
      .escort = options.escort};
  for (const Member& member : members)
    core.workers.push_back(member.info);
  if (core.pool.name == WorkerPoolOptions().name)
    core.pool.name = options.name;
  core_ = std::make_shared<AgentCore>(std::move(core));
  core_->start(*transport_);
  transport_->start(std::move(members), core_->engine());
}

Agent::~Agent() {
  give_up("its agent has ended without shutdown()");
}

// For where another error is on its way, or none may be.
void Agent::give_up(const std::string& why) noexcept {
  try {
    abort(why);
  } catch (const std::exception& error) {
    TRIREME_LOG(error, "rpc") << "the end of " << me().name << ": " << error.what();
  }
}

void Agent::abort(const std::string& why) {
  if (ended_)
    return;
  try {
    // The others may never have talked to this worker.
    give_up_quiet(*store_, me().id, why);
  } catch (const Error&) {
    // The store may be gone; then they know.
  }
  end(why, Deadline::after(std::chrono::seconds(1)));
}

std::string Agent::why_gone(WorkerId worker) const {
  std::string why = core_->engine().why_gone(worker);
  if (why.empty() && worker != me().id && transport_->has_ended(worker))
    why = "its process has ended";
  return why;
}

// Nothing of this agent runs when it returns, but functions that do not end.
void Agent::end(const std::string& why, const Deadline& deadline) {
  ended_ = true;
  core_->close(why);
  transport_->close(deadline);
  core_->stop(why);
  core_->pool().stop(Deadline::after(std::chrono::seconds(2)), WorkerPool::Rest::Drop);
}

void Agent::shutdown(ShutdownOptions options) {
  if (ended_)
    return;
  const Deadline deadline = Deadline::after(options.timeout);
  const int size = static_cast<int>(workers().size());
  std::vector<std::string> left;
  try {
    wait_until_quiet(
        {.store = *store_,
         .rank = me().id,
         .world_size = size,
         .name = [this](int rank) { return core_->worker(rank).name; },
         .idle = [this] { return core_->idle(); },
         .activity =
             [this, &left] {
               // Before anyone may leave, and take its references along.
               left = core_->left();
               return core_->engine().activity();
             },
         .check =
             [this, size] {
               for (WorkerId worker = 0; worker < size; ++worker)
                 if (const std::string why = why_gone(worker); !why.empty())
                   throw PeerError(
                       worker,
                       text(
                           "[rpc] expected worker ",
                           core_->worker(worker).name,
                           " at the end, got none, since it is gone (",
                           why,
                           "); look at its log"));
             }},
        deadline);
  } catch (const TimeoutError& error) {
    std::string waits;
    for (const std::string& call : core_->engine().outstanding())
      waits += "\n  worker " + me().name + " waits for " + call;
    give_up("its shutdown has failed");
    throw TimeoutError(text(
        "[rpc] expected a graceful end of worker ",
        me().name,
        ", got none (",
        error.what(),
        "); look at what the late ones do",
        waits));
  } catch (...) {
    give_up("its shutdown has failed");
    throw;
  }
  end("it was shut down", Deadline::after(std::chrono::seconds(5)));
  if (left.empty())
    return;
  std::string lines;
  for (const std::string& line : left)
    lines += "\n  " + line;
  const Error leaks(text(
      "[rpc] expected no references between workers at the end, got ",
      left.size(),
      " in the sight of worker ",
      me().name,
      "; let them go before shutdown()",
      lines));
  if (options.leaks == Leaks::Refuse)
    throw leaks;
  TRIREME_LOG(warn, "rpc") << leaks.what();
}

ThisAgent this_agent() {
  const CallContext* call = this_call();
  if (call != nullptr)
    if (auto core = std::static_pointer_cast<AgentCore>(call->home.lock()))
      return ThisAgent(std::move(core));
  throw InvalidArgument(
      "[rpc] expected a thread that works for a call, got one outside of any; use the "
      "Agent "
      "itself there");
}

}  // namespace trireme::rpc
