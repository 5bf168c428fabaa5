#include "trireme/rpc/agent_core.h"

#include <random>

#include "trireme/core/list_names.h"
#include "trireme/core/nearest.h"

namespace trireme::rpc {

namespace {

std::uint64_t new_trace() {
  thread_local std::mt19937_64 numbers{std::random_device()()};
  return numbers();
}

}  // namespace

AgentCore::AgentCore(AgentCoreOptions options)
    : options_(std::move(options)),
      pool_(options_.pool),
      under_way_(options_.workers.size()) {
  for (std::size_t i = 0; i < options_.workers.size(); ++i)
    counters_.push_back(std::make_shared<PeerCounters>());
}

void AgentCore::start(Transport& transport) {
  std::vector<ServedPeer> peers;
  for (std::size_t i = 0; i < counters_.size(); ++i)
    peers.push_back({std::make_shared<WorkerInfo>(options_.workers[i]), counters_[i]});
  server_ = std::make_shared<Server>(
      Server::Options{
          .functions = options_.functions,
          .limits = options_.limits,
          .message_bytes = options_.message_bytes,
          .peers = std::move(peers),
          .home = weak_from_this()},
      pool_);
  EngineOptions engine{
      .protocol = {
          .link = {.lease = options_.lease},
          .calls_per_worker = options_.calls_per_worker,
          .make_token = [] { return CancelToken::make().share(); },
          .make_cargo = [] { return std::make_shared<ValuePlace>(); }},
      .me = options_.me,
      .world_size = static_cast<int>(options_.workers.size())};
  engine.serve = [server = server_](std::vector<Incoming> calls) {
    server->serve(std::move(calls));
  };
  engine.cancel = [](const std::shared_ptr<void>& token, const std::string& why) {
    CancelToken::shared(token).cancel(why);
  };
  engine_ = std::make_shared<Engine>(std::move(engine));
  engine_->releases()->home = weak_from_this();
  server_->start(engine_);
  engine_->start(transport);
}

std::uint64_t AgentCore::call(CallPlan plan, std::unique_ptr<CallEnd> end) {
  expect_open();
  const CallContext* inside = this_call();
  const Deadline deadline =
      nested_deadline(Deadline::after(plan.options.timeout.value_or(options_.timeout)));
  const Time now = Time::clock::now();
  end->core_ = shared_from_this();
  end->to_ = plan.to;
  end->trace_ = inside ? inside->trace : new_trace();
  end->deadline_ = deadline;
  end->start_ = now;
  end->signature_ = plan.signature;
  end->function_ = plan.function;
  for (const Reference& reference : plan.arguments.references)
    if (reference.hold() && reference->releases() != engine_->releases())
      throw InvalidArgument(text(
          "[rpc] expected references of worker ",
          me().name,
          " in a call of ",
          plan.function,
          ", got one that belongs to another agent of this process; send it from "
          "there"));
  Request request{
      .payload = pack_call(
          {.function = plan.function,
           .signature = plan.signature->hash,
           .trace = end->trace_},
          std::move(plan.arguments)),
      .deadline = now + (inside ? deadline.remaining() : deadline.allowed()),
      .idempotent = plan.options.idempotent,
      .creates = std::move(plan.creates)};
  if (const std::uint64_t bytes = bytes_of(request.payload);
      bytes > options_.message_bytes)
    throw InvalidArgument(text(
        "[rpc] expected at most ",
        options_.message_bytes,
        " bytes for a call of ",
        plan.function,
        ", got ",
        bytes,
        "; send it in pieces, or raise message_bytes"));
  enter(plan.to, deadline);
  counters(plan.to).sent();
  add_blocking_hook(engine_);
  return engine_->call(plan.to, std::move(request), std::move(end), plan.hurry);
}

// Waits until there is room for one more call to that worker.
void AgentCore::enter(WorkerId to, const Deadline& deadline) {
  auto& count = under_way_[static_cast<std::size_t>(to)];
  if (count.fetch_add(1) < options_.calls_per_worker)
    return;
  const auto has_room = [&] { return count.load() <= options_.calls_per_worker; };
  {
    const Blocking blocking;
    std::unique_lock lock(mutex_);
    if (room_.wait_for(lock, deadline.remaining(), has_room))
      return;
  }
  leave(to);
  throw TimeoutError(text(
      "[rpc] expected room for one more call to worker ",
      worker(to).name,
      ", got ",
      options_.calls_per_worker,
      " that are under way and do not end; wait for some of them before you make "
      "more"));
}

void AgentCore::leave(WorkerId to) {
  if (under_way_[static_cast<std::size_t>(to)].fetch_sub(1) <=
      options_.calls_per_worker)
    return;
  const std::lock_guard lock(mutex_);
  room_.notify_all();
}

const WorkerInfo& AgentCore::worker(const std::string& name) const {
  std::vector<std::string> names;
  for (const WorkerInfo& info : options_.workers) {
    if (info.name == name)
      return info;
    names.push_back(info.name);
  }
  throw InvalidArgument(text(
      "[rpc] expected the name of a worker, got \"",
      name,
      "\"",
      did_you_mean(name, names),
      "; there are ",
      list_names(names)));
}

const WorkerInfo& AgentCore::worker(WorkerId id) const {
  if (id < 0 || id >= static_cast<WorkerId>(options_.workers.size()))
    throw InvalidArgument(text(
        "[rpc] expected the number of a worker, 0 to ",
        options_.workers.size() - 1,
        ", got ",
        id,
        "; take it from Agent::workers()"));
  return options_.workers[static_cast<std::size_t>(id)];
}

std::vector<std::string> AgentCore::left() const {
  std::vector<std::string> lines;
  for (const Tie& tie : engine_->left())
    lines.push_back(text(
        "value ",
        to_string(tie.id),
        " of worker ",
        worker(tie.owner).name,
        " is held by worker ",
        worker(tie.holder).name));
  return lines;
}

void AgentCore::expect_open() const {
  if (!closed_.load())
    return;
  const std::lock_guard lock(mutex_);
  throw Error(text(
      "[rpc] expected an agent that runs, got one that was shut down: ",
      why_closed_,
      "; make all calls before shutdown()"));
}

void AgentCore::close(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (why_closed_.empty())
    why_closed_ = why;
  closed_.store(true);
}

void AgentCore::stop(const std::string& why) {
  close(why);
  if (engine_)
    engine_->stop(why);
}

std::shared_ptr<AgentCore> core_of(const Reference& reference) {
  expect_reachable(reference);
  if (auto core =
          std::static_pointer_cast<AgentCore>(reference->releases()->home.lock()))
    return core;
  throw Error(text(
      "[rpc] expected a reference whose agent runs, got one to value ",
      to_string(reference->id()),
      " whose agent has ended; keep the agent longer"));
}

}  // namespace trireme::rpc
