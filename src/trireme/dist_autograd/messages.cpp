#include "trireme/dist_autograd/messages.h"

#include <utility>

#include "trireme/core/log.h"
#include "trireme/dist_autograd/context_state.h"
#include "trireme/dist_autograd/contexts.h"
#include "trireme/rpc/call_context.h"
#include "trireme/rpc/caller.h"
#include "trireme/rpc/future_all.h"

namespace trireme::dist_autograd {

/// What a plan is on its way: its deadline is that of the call.
struct SentPlan {
  ContextId context;
  PassId pass;
  bool keep_graph = false;
  bool exact = true;
  bool follows = false;
  std::uint64_t route = 0;
};

}  // namespace trireme::dist_autograd

template <>
struct trireme::rpc::WireType<trireme::dist_autograd::SentPlan> {
  using SentPlan = dist_autograd::SentPlan;
  static void write(ValueWriter& writer, const SentPlan& plan) {
    write_value(writer, plan.context);
    write_value(writer, plan.pass);
    writer.bytes()
        .flag(plan.keep_graph)
        .flag(plan.exact)
        .flag(plan.follows)
        .u64(plan.route);
  }
  static SentPlan read(ValueReader& reader) {
    SentPlan plan;
    plan.context = read_value<dist_autograd::ContextId>(reader);
    plan.pass = read_value<dist_autograd::PassId>(reader);
    plan.keep_graph = reader.bytes().flag();
    plan.exact = reader.bytes().flag();
    plan.follows = reader.bytes().flag();
    plan.route = reader.bytes().u64();
    return plan;
  }
  static std::string name() { return "plan"; }
};

namespace trireme::dist_autograd {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using Sends = std::vector<SendId>;
using Tensors = std::vector<at::Tensor>;

const rpc::Function<Answer(SentPlan, Sends)> kMark{
    .name = std::string(kPrefix) + "mark"};
const rpc::Function<Answer(SentPlan, SendId, Tensors)> kFeed{
    .name = std::string(kPrefix) + "feed"};
const rpc::Function<void(ContextId, PassId, PassFault)> kFail{
    .name = std::string(kPrefix) + "fail"};
const rpc::Function<void(ContextId)> kEnd{.name = std::string(kPrefix) + "end"};
const rpc::Function<Waiting(ContextId, PassId)> kWaiting{
    .name = std::string(kPrefix) + "waiting"};

rpc::Caller to(const ContextState& context, const PassPlan& plan, rpc::WorkerId who) {
  return rpc::Caller(
      context.core(),
      who,
      {.timeout = duration_cast<milliseconds>(plan.deadline.remaining()),
       .haste = rpc::Haste::Now});
}

SentPlan sent(const ContextState& context, const PassPlan& plan) {
  return {context.id(), plan.id, plan.keep_graph, plan.exact, plan.follows, plan.route};
}

PassPlan received(const SentPlan& plan) {
  return {
      .id = plan.pass,
      .keep_graph = plan.keep_graph,
      .exact = plan.exact,
      .route = plan.route,
      .follows = plan.follows,
      .deadline = rpc::this_call()->deadline};
}

// The first answer that is an error.
Answer worst_of(std::vector<Answer> answers) {
  for (Answer& answer : answers)
    if (answer)
      return std::move(answer);
  return {};
}

rpc::Future<Answer> mark(Contexts& contexts, const SentPlan& plan, const Sends& sends) {
  const auto context = contexts.find(plan.context);
  const auto pass = context->pass(received(plan));
  return send_marks(*context, pass->plan(), pass->mark(sends));
}

rpc::Future<Answer> feed(
    Contexts& contexts, const SentPlan& plan, const SendId& send, Tensors gradients) {
  const auto pass = contexts.find(plan.context)->pass(received(plan));
  if (!plan.exact)
    pass->mark_all();
  else if (plan.follows)
    pass->follow();
  return pass->feed(send, std::move(gradients));
}

// Goes on to all that this worker has drawn in, once.
void fail(
    Contexts& contexts,
    const ContextId& id,
    const PassId& pass,
    const PassFault& fault) {
  const auto context = contexts.find_open(id);
  if (!context)
    return;
  const auto running = context->running_pass();
  if (!running || running->plan().id != pass)
    return;
  running->fail(fault);
  for (const rpc::WorkerId peer : context->peers())
    tell_failed(*context->core(), peer, id, pass, fault);
}

Waiting waiting(Contexts& contexts, const ContextId& id, const PassId& pass) {
  const auto context = contexts.find_open(id);
  if (!context)
    return {};
  Waiting waiting{.sends = {}, .peers = context->peers()};
  const auto running = context->running_pass();
  if (running && running->plan().id == pass)
    waiting.sends = running->waiting();
  return waiting;
}

// For what nobody waits for: the other worker may be gone, which others notice.
template <class Call>
void tell(const char* what, rpc::WorkerId to, const Call& call) noexcept {
  try {
    call();
  } catch (const std::exception& error) {
    TRIREME_LOG(debug, "dist_autograd")
        << "worker " << to << " was not told " << what << ": " << error.what();
  }
}

}  // namespace

void add_functions(
    rpc::FunctionTable& functions, const std::shared_ptr<Contexts>& contexts) {
  functions
      .add(
          kMark.name,
          [contexts](const SentPlan& plan, const Sends& sends) {
            return mark(*contexts, plan, sends);
          })
      .add(
          kFeed.name,
          [contexts](const SentPlan& plan, const SendId& send, Tensors gradients) {
            return feed(*contexts, plan, send, std::move(gradients));
          })
      .add(
          kFail.name,
          [contexts](
              const ContextId& context, const PassId& pass, const PassFault& fault) {
            fail(*contexts, context, pass, fault);
          })
      .add(
          kEnd.name,
          [contexts](const ContextId& context) {
            contexts->end(context, rpc::this_call()->caller->id);
          })
      .add(kWaiting.name, [contexts](const ContextId& context, const PassId& pass) {
        return waiting(*contexts, context, pass);
      });
}

rpc::Future<Answer> send_gradients(
    const ContextState& context,
    const PassPlan& plan,
    rpc::WorkerId to_worker,
    const SendId& send,
    autograd::variable_list gradients) {
  return to(context, plan, to_worker)
      .async(kFeed, sent(context, plan), send, std::move(gradients));
}

rpc::Future<Answer> send_marks(
    const ContextState& context, const PassPlan& plan, const Pass::Marks& marks) {
  std::vector<rpc::Future<Answer>> answers;
  for (const auto& [worker, sends] : marks)
    answers.push_back(
        to(context, plan, worker)
            .async(kMark, sent(context, plan), sends)
            .handle([me = context.worker_name()](const rpc::Future<Answer>& marked) {
              const std::exception_ptr error = marked.error();
              return error ? Answer(fault_of(me, error)) : marked.get();
            }));
  if (answers.empty())
    return rpc::ready_future(Answer());
  return rpc::all(std::move(answers)).then([](std::vector<Answer> all) {
    return worst_of(std::move(all));
  });
}

void tell_failed(
    rpc::AgentCore& core,
    rpc::WorkerId to_worker,
    const ContextId& context,
    const PassId& pass,
    const PassFault& fault) noexcept {
  tell("of a backward that failed", to_worker, [&] {
    rpc::Caller(core.shared_from_this(), to_worker, {})
        .async(kFail, context, pass, fault);
  });
}

void tell_ended(
    rpc::AgentCore& core, rpc::WorkerId to_worker, const ContextId& context) noexcept {
  tell("of the end of a context", to_worker, [&] {
    // It lets memory go: it need not disturb what is called next.
    rpc::Caller(core.shared_from_this(), to_worker, {.haste = rpc::Haste::Later})
        .async(kEnd, context);
  });
}

rpc::Future<Waiting> ask_waiting(
    const std::shared_ptr<rpc::AgentCore>& core,
    rpc::WorkerId worker,
    const ContextId& context,
    const PassId& pass) {
  return rpc::Caller(core, worker, {.timeout = std::chrono::seconds(2)})
      .async(kWaiting, context, pass);
}

}  // namespace trireme::dist_autograd
