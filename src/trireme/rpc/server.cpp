#include "trireme/rpc/server.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "trireme/core/clock.h"
#include "trireme/core/list_names.h"
#include "trireme/rpc/remote_error.h"

namespace trireme::rpc {

namespace {

// Counts as long as it is there.
class Counted {
 public:
  explicit Counted(std::atomic<std::size_t>& count) : count_(&count) { ++count; }
  Counted(Counted&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (count_ != nullptr)
      --*count_;
  }

 private:
  std::atomic<std::size_t>* count_;
};

}  // namespace

struct Server::Batch {
  explicit Batch(std::size_t calls) : unanswered(calls) {}
  std::atomic<std::size_t> unanswered;
};

struct Server::Run {
  std::shared_ptr<Server> server;
  Counted counted;  // before what holds references
  const ServedFunction* function = nullptr;
  Incoming incoming;
  CallContext context;
  std::uint64_t span = 0;
  std::string note;
  std::int64_t start_ns = 0;
  std::shared_ptr<Batch> batch;
  // How it goes on, for one that has waited.
  struct Resumer final : Executor {
    bool try_run(Task&& task) override;
    std::weak_ptr<Run> run;
    Task task;
  } resumer{};
  // To be asked once, when there is an answer.
  bool last_of_batch() const { return batch->unanswered.fetch_sub(1) == 1; }
};

namespace {

Deadline deadline_at(Time time) {
  if (time == Time::max())
    return Deadline::after(Deadline::kLongest);
  return Deadline::after(
      std::chrono::ceil<std::chrono::milliseconds>(time - Time::clock::now()));
}

// The caller has its own signature, and says both.
Fault refused(const char* kind, std::string text) {
  return {.type = kind, .text = std::move(text)};
}

}  // namespace

void Server::serve(std::vector<Incoming> calls) {
  const auto batch = std::make_shared<Batch>(calls.size());
  std::vector<std::shared_ptr<Run>> runs;
  runs.reserve(calls.size());
  for (Incoming& call : calls) {
    if (auto run = take(std::move(call), batch))
      runs.push_back(std::move(run));
    else
      batch->unanswered.fetch_sub(1);
  }
  run_all(std::move(runs));
}

// Null for one that was answered here.
std::shared_ptr<Server::Run> Server::take(
    Incoming incoming, const std::shared_ptr<Batch>& batch) {
  if (incoming.full) {
    turn_away(incoming);
    return nullptr;
  }
  const ServedPeer& peer = options_.peers[static_cast<std::size_t>(incoming.from)];
  peer.counters->received();
  peer.counters->bytes_in(bytes_of(incoming.payload));
  CallHead head;
  try {
    head = unpack_call_head(incoming.payload);
  } catch (const InvalidArgument& error) {
    refuse(incoming, refused("text", error.what()));
    return nullptr;
  }
  const ServedFunction* function = check(incoming, head);
  if (function == nullptr)
    return nullptr;
  auto run = std::make_shared<Run>(
      Run{.server = shared_from_this(),
          .counted = Counted(running_),
          .function = function,
          .incoming = std::move(incoming),
          .span = head.span,
          .note = std::move(head.note),
          .batch = batch});
  run->resumer.run = run;
  run->context = {
      .caller = peer.info,
      .function = std::move(head.function),
      .deadline = deadline_at(run->incoming.deadline),
      .cancel = CancelToken::shared(run->incoming.token),
      .trace = head.trace,
      .home = options_.home,
      .resumer = &run->resumer,
      .depth = head.depth};
  return run;
}

// Quick functions here and now, before the others begin.
void Server::run_all(std::vector<std::shared_ptr<Run>> runs) {
  std::vector<Task> tasks;
  tasks.reserve(runs.size());
  std::vector<std::shared_ptr<Run>> started;
  const auto decline = [this](const Run& run) {
    turn_away(run.incoming);
    run.batch->unanswered.fetch_sub(1);
  };
  for (auto& run : runs) {
    if (run->function->options.quick) {
      start(run);
      continue;
    }
    auto entered = admission_.enter(run, run->context.depth);
    if (entered.full)
      decline(*run);
    if (!entered.start)
      continue;
    started.push_back(entered.start);
    tasks.emplace_back(
        [next = std::move(entered.start)]() mutable { work(std::move(next)); });
  }
  for (std::size_t i = executor_.try_run_all(tasks); i < started.size(); ++i)
    for (auto run = std::move(started[i]); run; run = admission_.leave())
      decline(*run);
}

// As a call that begins, since it must leave threads to the calls that it makes.
bool Server::Run::Resumer::try_run(Task&& given) {
  TRIREME_ASSERT(!task);
  task = std::move(given);
  const auto waited = run.lock();
  Server& server = *waited->server;
  auto next = server.admission_.enter_again(waited, waited->context.depth);
  if (!next)
    return true;
  Task work([next = std::move(next)]() mutable { Server::work(std::move(next)); });
  if (!server.executor_.try_run(std::move(work)))
    work();
  return true;
}

// Runs a call, and then those that have waited for its thread.
void Server::work(std::shared_ptr<Run> run) {
  const auto server = run->server;
  while (run) {
    start(run);
    run = nullptr;
    run = server->admission_.leave();
  }
}

// Too much waits here already.
void Server::turn_away(const Incoming& incoming) {
  if (incoming.creates)
    place_of(incoming.creates)
        ->fail(
            std::make_exception_ptr(Error("[rpc] expected room for a call that makes a "
                                          "value, got too many that wait; call "
                                          "again later")));
  respond(incoming, Status::Full, {});
}

// The function, if it may be called so; else the call is refused.
const ServedFunction* Server::check(const Incoming& incoming, const CallHead& head) {
  static const ServedFunction fetch = fetch_function();
  if (head.function == kFetchName)
    return &fetch;
  const ServedFunction* function = options_.functions.find(head.function);
  if (function == nullptr) {
    refuse(incoming, refused("unknown", options_.functions.hint(head.function)));
    return nullptr;
  }
  const auto& roles = function->options.roles;
  const std::string& role =
      options_.peers[static_cast<std::size_t>(incoming.from)].info->role;
  if (!roles.empty() && std::find(roles.begin(), roles.end(), role) == roles.end()) {
    refuse(incoming, refused("role", list_names(roles)));
    return nullptr;
  }
  if (head.signature != function->signature.hash) {
    refuse(incoming, refused("signature", function->signature.text));
    return nullptr;
  }
  return function;
}

void Server::refuse(const Incoming& incoming, Fault fault) {
  if (incoming.creates)
    place_of(incoming.creates)
        ->fail(std::make_exception_ptr(InvalidArgument(text(
            "[rpc] expected a call that makes a value, got one that was refused (",
            fault.type,
            " ",
            fault.text,
            "); look at the error of its caller"))));
  respond(incoming, Status::Refused, pack_fault(fault));
}

void Server::start(const std::shared_ptr<Run>& run) {
  if (Task resumed = std::move(run->resumer.task))
    return resumed();
  run->start_ns = now_ns();
  const CallScope scope(CallPointer(run, &run->context));
  Server::run(run);
}

void Server::run(const std::shared_ptr<Run>& run) {
  Answer answer([run](Returned returned, std::exception_ptr error) {
    end(*run, std::move(returned), std::move(error));
  });
  const bool keep = static_cast<bool>(run->incoming.creates);
  Values arguments;
  try {
    // Nobody may want it any more, since it has stood in the queue.
    run->context.cancel.throw_if_cancelled();
    arguments = unpack_arguments(
        std::move(run->incoming.payload), run->server->options_.limits);
    meet_escort(*run, arguments.tensors);
  } catch (...) {
    return answer.fail(std::current_exception());
  }
  run->function->run(arguments, keep, std::move(answer));
}

void Server::meet_escort(Run& run, std::vector<at::Tensor>& arguments) {
  if (run.note.empty())
    return;
  const auto& escort = run.server->options_.escort;
  if (!escort)
    throw InvalidArgument(text(
        "[rpc] expected a worker that gradients may lead through, got a call of ",
        run.context.function,
        " inside a context on one that has none; make its agent with the same "
        "AgentOptions::escort"));
  run.context.escort =
      escort->arrive(run.incoming.from, run.context.function, run.note, arguments);
}

// A function has ended, here or on any other thread.
void Server::end(Run& run, Returned returned, std::exception_ptr error) {
  Status status = error ? Status::Failed : Status::Value;
  Payload payload;
  try {
    if (!error && !run.incoming.creates) {
      run.server->expect_own(returned.values.references, run.context.function);
      if (run.context.escort)
        run.context.escort->pass(returned.values.tensors);
      copy_live_tensors(returned);
      payload = pack_values(std::move(returned.values));
    }
    expect_fits(
        payload,
        std::min(run.server->options_.message_bytes, run.context.caller->message_bytes),
        "a result of " + run.context.function);
  } catch (...) {
    status = Status::Failed;
    error = std::current_exception();
  }
  if (run.incoming.creates) {
    const auto place = place_of(run.incoming.creates);
    returned.kept.made_by = run.context.function;
    if (error)
      place->fail(error);
    else
      place->set(std::move(returned.kept));
  }
  if (error)
    payload = pack_fault(fault_of(error));
  else if (run.incoming.creates)
    payload = pack_values({});
  run.server->note(run, status);
  run.server->respond(run.incoming, status, std::move(payload), run.last_of_batch());
}

void Server::note(const Run& run, Status status) {
  if (!options_.trace->on())
    return;
  options_.trace->add(
      {.side = CallSpan::Side::Callee,
       .function = run.context.function,
       .other = run.incoming.from,
       .trace = run.context.trace,
       .call = run.span,
       .start_ns = run.start_ns,
       .end_ns = now_ns(),
       .end = status == Status::Value ? "value" : "failed"});
}

// Those of another agent of this process mean nothing to the caller.
void Server::expect_own(
    const std::vector<Reference>& references, const std::string& function) const {
  const auto engine = engine_.lock();
  for (const Reference& reference : references)
    if (engine && reference.hold() && reference->releases() != engine->releases())
      throw InvalidArgument(text(
          "[rpc] expected references of this worker in a result of ",
          function,
          ", got one that belongs to another agent of this process; return it from "
          "there"));
}

void Server::respond(
    const Incoming& incoming, Status status, Payload payload, bool hurry) {
  PeerCounters& counters =
      *options_.peers[static_cast<std::size_t>(incoming.from)].counters;
  counters.answered();
  counters.bytes_out(bytes_of(payload));
  if (const auto engine = engine_.lock())
    engine->respond(incoming, status, std::move(payload), hurry);
}

ServedFunction fetch_function() {
  ServedFunction fetch{
      .name = kFetchName, .signature = {}, .options = {}, .run = nullptr};
  fetch.run = [](const Values& values, bool keep, Answer answer) {
    std::tuple<Reference, std::string> wanted;
    std::shared_ptr<ValuePlace> place;
    try {
      if (keep)
        throw InvalidArgument(
            "[rpc] expected to send a value by trireme.fetch, got a call by remote(); "
            "use the reference to the value itself");
      wanted = arguments_of<Reference, std::string>(values);
      place = place_of(std::get<0>(wanted));
    } catch (...) {
      return answer.fail(std::current_exception());
    }
    // The answer goes last: until then the call counts as running.
    place->future().handle([answer = std::move(answer), wanted = std::move(wanted)](
                               Future<KeptValue> made) mutable {
      try {
        const KeptValue kept = made.get();
        const std::string& name = std::get<1>(wanted);
        if (kept.type->name != name || kept.type->write == nullptr)
          throw InvalidArgument(text(
              "[rpc] expected a reference to a value of type ",
              name,
              " that travels, got one of type ",
              kept.type->name,
              "; take the RRef of the type that the function gives, and call methods "
              "of "
              "what does not travel"));
        ValueWriter writer;
        kept.type->write(writer, kept.value.get());
        answer.give({.values = writer.take(), .kept = kept});
      } catch (...) {
        answer.fail(std::current_exception());
      }
    });
  };
  return fetch;
}

}  // namespace trireme::rpc
