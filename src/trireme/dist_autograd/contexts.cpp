#include "trireme/dist_autograd/contexts.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <c10/core/GradMode.h>

#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/dist_autograd/embedding_shard.h"
#include "trireme/dist_autograd/messages.h"
#include "trireme/dist_autograd/optimizer_desk.h"
#include "trireme/dist_autograd/receive_node.h"

namespace trireme::dist_autograd {
namespace {

thread_local std::shared_ptr<ContextState> context_of_scope;

// What stands in a call's note.
struct Note {
  ContextId context;
  std::uint64_t floor = 0;
  std::uint64_t ordinal = 0;
};

std::string write_note(const Note& note) {
  return net::ByteWriter()
      .u32(static_cast<std::uint32_t>(note.context.creator))
      .u64(note.context.number)
      .u64(note.floor)
      .u64(note.ordinal)
      .take();
}

Note read_note(std::string_view bytes) {
  net::ByteReader reader(bytes, "the context of a call");
  Note note;
  note.context.creator = static_cast<rpc::WorkerId>(reader.u32());
  note.context.number = reader.u64();
  note.floor = reader.u64();
  note.ordinal = reader.u64();
  reader.expect_end();
  return note;
}

// A call inside a context, where it is made.
class CallerSide final : public rpc::CallEscort {
 public:
  CallerSide(std::shared_ptr<ContextState> context, const CallId& call)
      : context_(std::move(context)), call_(call) {}
  void pass(std::vector<at::Tensor>& result) override {
    attach_receive(context_, {call_, true}, result);
  }
  void lose() noexcept override { context_->drop_send({call_, false}); }

 private:
  std::shared_ptr<ContextState> context_;
  CallId call_;
};

// The same where it runs.
class CalleeSide final : public rpc::CallEscort {
 public:
  CalleeSide(
      std::shared_ptr<ContextState> context, const CallId& call, std::string function)
      : context_(std::move(context)), call_(call), function_(std::move(function)) {}
  void pass(std::vector<at::Tensor>& result) override {
    context_->add_send({call_, true}, function_, result);
  }
  const std::shared_ptr<ContextState>& context() const { return context_; }

 private:
  std::shared_ptr<ContextState> context_;
  CallId call_;
  std::string function_;
};

[[noreturn]] void refuse_ended(const ContextId& id) {
  throw Error(text(
      "[dist_autograd] expected an open context, got ",
      to_string(id),
      ", which has ended or was never heard of here; keep the context until all its "
      "calls and passes are through"));
}

// A restarted worker begins above all that it has ever used.
std::uint64_t first_number() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace

rpc::AgentOptions with_gradients(rpc::AgentOptions options) {
  if (options.escort)
    throw InvalidArgument(
        "[dist_autograd] expected options of an agent that has no escort yet, got "
        "some that have one; call with_gradients() once");
  auto contexts = std::make_shared<Contexts>();
  add_functions(options.functions, contexts);
  add_embedding_functions(options.functions);
  add_optimizer_functions(options.functions, contexts);
  options.escort = std::move(contexts);
  return options;
}

Contexts::Contexts() : next_number_(first_number()) {}

void Contexts::start(std::weak_ptr<rpc::AgentCore> core) {
  const auto alive = core.lock();
  for (std::size_t i = 0; i < alive->options().workers.size(); ++i)
    creators_.push_back(std::make_unique<Creator>());
  me_ = alive->me().id;
  core_ = std::move(core);
}

Contexts::Creator& Contexts::of(rpc::WorkerId creator) const {
  if (creator < 0 || creator >= static_cast<rpc::WorkerId>(creators_.size()))
    throw InvalidArgument(text(
        "[dist_autograd] expected a context of one of ",
        creators_.size(),
        " workers, got one of worker ",
        creator,
        "; take its id from the context"));
  return *creators_[static_cast<std::size_t>(creator)];
}

std::shared_ptr<ContextState> Contexts::create() {
  Creator& mine = of(me_);
  const std::lock_guard lock(mine.mutex);
  const ContextId id{me_, next_number_.fetch_add(1)};
  return mine.open[id.number] = std::make_shared<ContextState>(id, core_, routes_);
}

std::shared_ptr<ContextState> Contexts::find(const ContextId& id) const {
  if (auto context = find_open(id))
    return context;
  refuse_ended(id);
}

std::shared_ptr<ContextState> Contexts::find_open(const ContextId& id) const {
  const Creator& creator = of(id.creator);
  const std::lock_guard lock(creator.mutex);
  const auto found = creator.open.find(id.number);
  return found == creator.open.end() ? nullptr : found->second;
}

std::shared_ptr<ContextState> Contexts::find_met(const ContextId& id) const {
  const Creator& creator = of(id.creator);
  const std::lock_guard lock(creator.mutex);
  if (const auto found = creator.open.find(id.number); found != creator.open.end())
    return found->second;
  if (id.creator == me_ || id.number < creator.floor ||
      creator.ended.contains(id.number))
    refuse_ended(id);
  return nullptr;
}

// The context of a call that has come in, whose creator has ended all below `floor`.
Contexts::StatePointer Contexts::join(const ContextId& id, std::uint64_t floor) {
  Creator& creator = of(id.creator);
  std::vector<StatePointer> over;
  StatePointer context;
  {
    const std::lock_guard lock(creator.mutex);
    if (id.creator != me_)
      over = raise_floor(creator, floor);
    if (const auto found = creator.open.find(id.number); found != creator.open.end()) {
      context = found->second;
    } else if (
        id.creator != me_ && id.number >= creator.floor &&
        !creator.ended.contains(id.number)) {
      context = creator.open[id.number] =
          std::make_shared<ContextState>(id, core_, routes_);
      creator.highest = std::max(creator.highest, id.number);
    }
  }
  for (const StatePointer& state : over)
    state->end("its context has ended");
  if (!context)
    refuse_ended(id);
  return context;
}

std::vector<Contexts::StatePointer> Contexts::raise_floor(
    Creator& creator, std::uint64_t floor) {
  std::vector<StatePointer> over;
  if (floor <= creator.floor)
    return over;
  creator.floor = floor;
  const auto end = creator.open.lower_bound(floor);
  for (auto at = creator.open.begin(); at != end; ++at)
    over.push_back(std::move(at->second));
  creator.open.erase(creator.open.begin(), end);
  creator.ended.erase(creator.ended.begin(), creator.ended.lower_bound(floor));
  return over;
}

std::uint64_t Contexts::floor_of(rpc::WorkerId worker) const {
  const Creator& creator = of(worker);
  const std::lock_guard lock(creator.mutex);
  if (worker != me_)
    return creator.floor;
  return creator.open.empty() ? next_number_.load() : creator.open.begin()->first;
}

void Contexts::end(const ContextId& id, rpc::WorkerId told_by) noexcept {
  StatePointer context;
  {
    Creator& creator = of(id.creator);
    const std::lock_guard lock(creator.mutex);
    if (const auto found = creator.open.find(id.number); found != creator.open.end()) {
      context = std::move(found->second);
      creator.open.erase(found);
    }
    if (id.creator != me_ && id.number >= creator.floor)
      creator.ended.insert(id.number);
  }
  if (!context)
    return;
  context->end("its context has ended");
  const auto core = core_.lock();
  if (!core)
    return;
  for (const rpc::WorkerId peer : context->peers())
    if (peer != me_ && peer != told_by)
      tell_ended(*core, peer, id);
}

std::uint64_t Contexts::next_table(const std::string& name) {
  const std::lock_guard lock(tables_mutex_);
  return ++tables_[name];
}

std::size_t Contexts::size() const {
  std::size_t size = 0;
  for (const auto& creator : creators_) {
    const std::lock_guard lock(creator->mutex);
    size += creator->open.size();
  }
  return size;
}

std::shared_ptr<rpc::CallEscort> Contexts::leave(
    rpc::WorkerId to,
    const std::string& function,
    const std::vector<at::Tensor>& arguments,
    std::string& note) {
  if (!c10::GradMode::is_enabled() || function.starts_with(kPrefix))
    return nullptr;
  const auto context = current_context();
  if (!context)
    return nullptr;
  if (context->core() != core_.lock())
    throw InvalidArgument(text(
        "[dist_autograd] expected a call by the agent of context ",
        to_string(context->id()),
        ", got one of ",
        function,
        " by another agent of this process; make it outside of the context"));
  const CallId call = context->next_call(to, function);
  context->add_send({call, false}, function, arguments);
  note = write_note({context->id(), floor_of(context->id().creator), call.ordinal});
  return std::make_shared<CallerSide>(context, call);
}

std::shared_ptr<rpc::CallEscort> Contexts::arrive(
    rpc::WorkerId from,
    const std::string& function,
    std::string_view bytes,
    std::vector<at::Tensor>& arguments) {
  const Note note = read_note(bytes);
  const auto context = join(note.context, note.floor);
  context->meet(from);
  const CallId call{from, me_, note.ordinal};
  attach_receive(context, {call, false}, arguments);
  return std::make_shared<CalleeSide>(context, call, function);
}

// Its contexts are over, and so are its passes in those of others. What of its contexts
// comes later must not begin anew with half of what there was.
void Contexts::forget(rpc::WorkerId worker, const std::string& why) noexcept {
  std::vector<StatePointer> over;
  std::vector<StatePointer> others;
  for (rpc::WorkerId id = 0; id < static_cast<rpc::WorkerId>(creators_.size()); ++id) {
    Creator& creator = *creators_[static_cast<std::size_t>(id)];
    const std::lock_guard lock(creator.mutex);
    if (id == worker && id != me_)
      over = raise_floor(creator, creator.highest + 1);
    else
      for (const auto& [number, context] : creator.open)
        others.push_back(context);
  }
  for (const StatePointer& context : over)
    context->end(text("the worker that has made its context is gone: ", why));
  for (const StatePointer& context : others)
    if (const auto pass = context->running_pass();
        pass && pass->plan().id.root == worker)
      pass->fail(
          {.worker = context->worker_name(),
           .type = "trireme::PeerError",
           .text = text("the worker that has begun the backward is gone: ", why),
           .gone = worker});
  const auto core = core_.lock();
  if (!also_forget_ || !core)
    return;
  try {
    also_forget_(core, worker, why);
  } catch (const std::exception& error) {
    TRIREME_LOG(error, "dist_autograd")
        << "what worker " << worker
        << " has left is not cleared away: " << error.what();
  }
}

namespace {

std::shared_ptr<Contexts> contexts_of_core(const rpc::AgentCore& core) {
  auto contexts = std::dynamic_pointer_cast<Contexts>(core.options().escort);
  if (!contexts)
    throw InvalidArgument(text(
        "[dist_autograd] expected an agent whose calls gradients cross, got worker ",
        core.me().name,
        " without; make all agents by rpc::Agent(with_gradients({…}))"));
  return contexts;
}

}  // namespace

std::shared_ptr<Contexts> contexts_of(const rpc::Agent& agent) {
  return contexts_of_core(*agent.core());
}

std::shared_ptr<Contexts> contexts_of(const rpc::ThisAgent& agent) {
  return contexts_of_core(*agent.core());
}

std::shared_ptr<ContextState> current_context() {
  if (context_of_scope)
    return context_of_scope;
  const rpc::CallContext* call = rpc::this_call();
  if (call == nullptr || !call->escort)
    return nullptr;
  const auto* side = dynamic_cast<const CalleeSide*>(call->escort.get());
  return side ? side->context() : nullptr;
}

ContextScope::ContextScope(std::shared_ptr<ContextState> context)
    : former_(std::exchange(context_of_scope, std::move(context))) {}

ContextScope::~ContextScope() {
  context_of_scope = std::move(former_);
}

}  // namespace trireme::dist_autograd
