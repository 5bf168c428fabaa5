#include "trireme/rpc/agent_core.h"

#include <algorithm>
#include <random>

#include "trireme/core/list_names.h"
#include "trireme/core/nearest.h"

namespace trireme::rpc {

namespace {

std::uint64_t new_trace() {
  thread_local std::mt19937_64 numbers{std::random_device()()};
  return numbers();
}

std::uint8_t depth_of_next_call() {
  const CallContext* inside = this_call();
  return inside ? static_cast<std::uint8_t>(std::min(inside->depth + 1, 255)) : 0;
}

}  // namespace

AgentCore::AgentCore(AgentCoreOptions options)
    : options_(std::move(options)),
      notes_(options_.job, me().name),
      pool_(options_.pool),
      rooms_(options_.workers.size()) {
  for (std::size_t i = 0; i < options_.workers.size(); ++i)
    counters_.push_back(std::make_shared<PeerCounters>());
}

void AgentCore::start(Transport& transport) {
  trace_->keep(options_.trace_calls);
  std::vector<ServedPeer> peers;
  for (std::size_t i = 0; i < counters_.size(); ++i)
    peers.push_back({std::make_shared<WorkerInfo>(options_.workers[i]), counters_[i]});
  server_ = std::make_shared<Server>(
      Server::Options{
          .functions = options_.functions,
          .limits = options_.limits,
          .message_bytes = me().message_bytes,
          .peers = std::move(peers),
          .trace = trace_,
          .home = weak_from_this(),
          .escort = options_.escort,
          .threads = options_.pool.most,
          .queue = options_.pool.queue},
      pool_);
  EngineOptions engine{
      .protocol = {
          .link = {.lease = options_.lease},
          .calls_per_worker = options_.calls_per_worker,
          .bytes_per_worker = options_.bytes_per_worker,
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
  if (options_.escort) {
    options_.escort->start(weak_from_this());
    engine.forget = [escort = options_.escort](
                        WorkerId worker, const std::string& why) {
      escort->forget(worker, why);
    };
  }
  engine_ = std::make_shared<Engine>(std::move(engine));
  engine_->releases()->home = weak_from_this();
  server_->start(engine_);
  engine_->start(transport);
}

void CallTie::keep(CancelRegistration registration) {
  const std::lock_guard lock(mutex_);
  if (!ended_)
    registration_ = std::move(registration);
}

// Not under the lock: it waits for a callback that runs, which may end the call, too.
void CallTie::end() {
  CancelRegistration registration;
  const std::lock_guard lock(mutex_);
  ended_ = true;
  registration = std::move(registration_);
}

std::uint64_t AgentCore::call(CallPlan plan, std::unique_ptr<CallEnd> end) {
  const ObjectId creates = plan.creates ? plan.creates->id() : ObjectId{};
  try {
    return send(std::move(plan), std::move(end));
  } catch (...) {
    // No request will ever ask for that name.
    if (creates.number != 0)
      engine_->abandon(creates);
    throw;
  }
}

std::uint64_t AgentCore::send(CallPlan plan, std::unique_ptr<CallEnd> end) {
  expect_open();
  const CallContext* inside = this_call();
  const Deadline deadline =
      nested_deadline(Deadline::after(plan.options.timeout.value_or(options_.timeout)));
  end->core_ = shared_from_this();
  end->to_ = plan.to;
  end->span_ = next_span_.fetch_add(1);
  end->trace_ = inside ? inside->trace : new_trace();
  end->deadline_ = deadline;
  end->start_ = Time::clock::now();
  end->signature_ = plan.signature;
  end->function_ = plan.function;
  if (inside)
    end->tie_ = std::make_shared<CallTie>();
  Request request = pack(plan, *end);
  add_blocking_hook(engine_);
  const std::uint64_t bytes = end->bytes_ = bytes_of(request.payload);
  enter(plan.to, bytes, deadline);
  counters(plan.to).sent();
  counters(plan.to).bytes_out(bytes);
  const auto tie = end->tie_;
  const std::uint64_t number =
      engine_->call(plan.to, std::move(request), std::move(end), plan.haste);
  if (tie)
    tie->keep(inside->cancel.on_cancel(
        [engine = std::weak_ptr(engine_), number](const std::string&) {
          if (const auto alive = engine.lock())
            alive->cancel(number);
        }));
  return number;
}

// The request, if it may be sent.
Request AgentCore::pack(CallPlan& plan, CallEnd& end) const {
  for (const Reference& reference : plan.arguments.references)
    if (reference.hold() && reference->releases() != engine_->releases())
      throw InvalidArgument(text(
          "[rpc] expected references of worker ",
          me().name,
          " in a call of ",
          plan.function,
          ", got one that belongs to another agent of this process; send it from "
          "there"));
  std::string note;
  if (options_.escort)
    end.escort_ =
        options_.escort->leave(plan.to, plan.function, plan.arguments.tensors, note);
  Request request{
      .payload = pack_call(
          {.function = plan.function,
           .signature = plan.signature->hash,
           .trace = end.trace_,
           .depth = depth_of_next_call(),
           .span = end.span_,
           .note = std::move(note)},
          std::move(plan.arguments)),
      .deadline = Time::clock::now() + end.deadline_.remaining(),
      .idempotent = plan.options.idempotent,
      .creates = std::move(plan.creates)};
  expect_fits(
      request.payload,
      std::min(me().message_bytes, worker(plan.to).message_bytes),
      "a call of " + plan.function);
  return request;
}

// One call alone may have as many bytes as it likes.
bool AgentCore::try_enter(Room& room, std::uint64_t bytes) const {
  std::size_t taken = room.taken.load();
  do
    if (taken >= options_.calls_per_worker)
      return false;
  while (!room.taken.compare_exchange_weak(taken, taken + 1));
  std::uint64_t before = room.bytes.load();
  do
    if (before > 0 && before + bytes > options_.bytes_per_worker) {
      --room.taken;
      return false;
    }
  while (!room.bytes.compare_exchange_weak(before, before + bytes));
  return true;
}

// Waits until there is room for one more call to that worker.
void AgentCore::enter(WorkerId to, std::uint64_t bytes, const Deadline& deadline) {
  Room& room = rooms_[static_cast<std::size_t>(to)];
  if (try_enter(room, bytes))
    return;
  const Blocking blocking;
  std::unique_lock lock(mutex_);
  ++room.waiting;
  const bool entered = left_room_.wait_for(
      lock, deadline.remaining(), [&] { return try_enter(room, bytes); });
  --room.waiting;
  if (entered)
    return;
  throw TimeoutError(text(
      "[rpc] expected room for one more call to worker ",
      worker(to).name,
      ", got ",
      room.taken.load(),
      " of ",
      options_.calls_per_worker,
      " calls and ",
      room.bytes.load(),
      " of ",
      options_.bytes_per_worker,
      " bytes that are under way and do not end; wait for some of them before you make "
      "more"));
}

void AgentCore::leave(WorkerId to, std::uint64_t bytes) {
  Room& room = rooms_[static_cast<std::size_t>(to)];
  room.bytes -= bytes;
  --room.taken;
  if (room.waiting.load() == 0)
    return;
  const std::lock_guard lock(mutex_);
  left_room_.notify_all();
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

Reference AgentCore::keep(KeptValue value) {
  auto place = std::make_shared<ValuePlace>();
  place->set(std::move(value));
  return engine_->own(std::move(place));
}

void AgentCore::note_late(const std::string& call) {
  if (notes_.due())
    notes_.write(call + " is late", engine_->outstanding(), engine_->load().running);
}

// What a value of this worker is, where that is known: ", a ps::Net by make_net,".
std::string AgentCore::describe(ObjectId id) const {
  const auto place = std::static_pointer_cast<ValuePlace>(engine_->cargo(id));
  if (!place || !place->future().ready() || place->future().failed())
    return "";
  return text(", ", words_of(place->future().get()), ",");
}

std::vector<std::string> AgentCore::left() const {
  std::vector<std::string> lines;
  for (const Tie& tie : engine_->left())
    lines.push_back(text(
        "value ",
        to_string(tie.id),
        " of worker ",
        worker(tie.owner).name,
        tie.owner == options_.me ? describe(tie.id) : "",
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
