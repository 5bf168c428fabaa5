#include "trireme/rpc/protocol.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/rpc/protocol_messages.h"

namespace trireme::rpc {

namespace {

// How many cancelled calls that have not come, or are over, are remembered for a
// worker.
constexpr std::size_t kEarlyCancels = 1024;

constexpr const char* kNotWanted = "its caller does not wait any more";

}  // namespace

// A call that this worker waits for.
struct Protocol::Pending {
  WorkerId to = 0;
  Time deadline = Time::max();
  int retries = 0;   // that are left
  ObjectId creates;  // number 0 for none
  std::unique_ptr<Completion> completion;
  Request request;  // kept as long as it may be sent again
  bool posted = false;
};

struct Protocol::Peer {
  explicit Peer(const LinkOptions& options, std::uint64_t name) : link(options, name) {}
  Link link;
  std::size_t calls = 0;  // mine to it
  struct Running {
    std::shared_ptr<void> token;
    std::uint64_t bytes = 0;
  };
  std::unordered_map<std::uint64_t, Running> running;  // its to me
  std::uint64_t running_bytes = 0;
  std::set<std::uint64_t> cancelled;  // by it, perhaps before they came
  std::optional<std::string> gone;
  bool touched = false;
};

// A message with references, which are written when it is posted.
struct Protocol::Draft {
  WorkerId to = 0;
  std::uint64_t round = 0;
  MessageKind kind = MessageKind::Request;
  std::uint64_t call = 0;
  std::string head;  // of a response; a request's says how much time is left
  Payload payload;
};

Protocol::Protocol(
    ProtocolOptions options,
    WorkerId me,
    int world_size,
    std::uint64_t first,
    std::shared_ptr<Releases> releases)
    : options_(std::move(options)),
      me_(me),
      first_call_(first),
      next_call_(first),
      references_(me, first, std::move(releases)) {
  for (int worker = 0; worker < world_size; ++worker)
    peers_.push_back(std::make_unique<Peer>(options_.link, first));
}

Protocol::~Protocol() = default;

Protocol::Peer& Protocol::peer(WorkerId worker) {
  TRIREME_ASSERT(worker >= 0 && worker < static_cast<WorkerId>(peers_.size()));
  return *peers_[static_cast<std::size_t>(worker)];
}

void Protocol::touch(WorkerId worker) {
  Peer& touched = peer(worker);
  if (!touched.touched) {
    touched.touched = true;
    touched_.push_back(worker);
  }
}

std::uint64_t Protocol::call(
    WorkerId to, Request request, std::unique_ptr<Completion> completion, Time now) {
  const std::uint64_t call = next_call_++;
  auto pending = std::make_unique<Pending>();
  pending->to = to;
  pending->deadline = request.deadline;
  pending->retries = request.idempotent && !request.creates ? options_.retries : 0;
  if (request.creates)
    pending->creates = request.creates->id();
  pending->completion = std::move(completion);
  pending->request = std::move(request);
  if (pending->deadline != Time::max())
    deadlines_.add(pending->deadline, call);
  pending_.emplace(call, std::move(pending));
  Peer& callee = peer(to);
  ++callee.calls;
  if (callee.gone)
    finish(call, {.status = Status::Lost, .payload = {}, .why = *callee.gone}, now);
  else if (to == me_)
    take_own_request(call);
  else
    send_request(call, now);
  return call;
}

// A worker that calls itself hands the payload over as it is.
void Protocol::take_own_request(std::uint64_t call) {
  Pending& pending = *pending_.at(call);
  Incoming incoming{
      .from = me_,
      .call = call,
      .payload = std::move(pending.request.payload),
      .deadline = pending.deadline,
      .token = options_.make_token(),
      .creates = std::move(pending.request.creates)};
  peer(me_).running.emplace(call, Peer::Running{.token = incoming.token});
  effects_.calls.push_back(std::move(incoming));
}

void Protocol::send_request(std::uint64_t call, Time now) {
  Pending& pending = *pending_.at(call);
  Draft draft{
      .to = pending.to,
      .round = peer(pending.to).link.round(),
      .kind = MessageKind::Request,
      .call = call};
  if (pending.retries > 0)
    draft.payload = pending.request.payload;
  else
    draft.payload = std::move(pending.request.payload);
  post(std::move(draft), now);
}

// Sends a message, or keeps it until all values that it names have their places.
void Protocol::post(Draft draft, Time now) {
  Peer& receiver = peer(draft.to);
  const auto pending =
      draft.kind == MessageKind::Request ? pending_.find(draft.call) : pending_.end();
  const bool off = draft.kind == MessageKind::Request && pending == pending_.end();
  if (off || receiver.gone || receiver.link.round() != draft.round)
    return;
  for (const Reference& reference : draft.payload.references)
    if (references_.must_wait(reference)) {
      waiting_[reference->id()].push_back(std::move(draft));
      return;
    }
  if (pending != pending_.end()) {
    pending->second->posted = true;
    draft.head = write_request_head(
        {.call = draft.call,
         .timeout = time_left(pending->second->deadline, now),
         .creates = pending->second->creates});
  }
  Message message{
      .kind = static_cast<std::uint8_t>(draft.kind),
      .body = std::move(draft.head),
      .parts = std::move(draft.payload.parts)};
  std::vector<TravelMark> marks;
  for (const Reference& reference : draft.payload.references)
    marks.push_back(references_.send(reference, draft.to));
  message.body.reserve(
      message.body.size() + draft.payload.bytes.size() + marks_bytes(marks.size()));
  append_marks(marks, message.body);
  message.body += draft.payload.bytes;
  receiver.link.post(std::move(message), now);
  touch(draft.to);
}

void Protocol::finish(std::uint64_t call, Outcome outcome, Time now) {
  const auto found = pending_.find(call);
  if (found == pending_.end())
    return;
  const std::unique_ptr<Pending> pending = std::move(found->second);
  pending_.erase(found);
  --peer(pending->to).calls;
  deadlines_.tidy(pending_.size(), [&](std::uint64_t number) {
    return pending_.count(number) > 0;
  });
  // A name that was never sent will never have a value.
  if (pending->creates.number != 0 && !pending->posted && pending->to != me_)
    abandon(pending->creates, now);
  effects_.finished.emplace_back(std::move(pending->completion), std::move(outcome));
}

void Protocol::abandon(ObjectId name, Time now) {
  Consequences then;
  references_.abandon(name, "the call that was to make it was not sent", then);
  carry_out(std::move(then), now);
}

// Ends a call on this side, and tells the callee that nobody waits.
void Protocol::finish_early(std::uint64_t call, Status status, Time now) {
  const auto found = pending_.find(call);
  if (found == pending_.end())
    return;
  const WorkerId to = found->second->to;
  if (to == me_) {
    take_cancel(me_, call);
  } else if (found->second->posted) {
    peer(to).link.post(
        {.kind = static_cast<std::uint8_t>(MessageKind::Cancel),
         .body = write_call(call),
         .parts = {}},
        now);
    touch(to);
  }
  finish(call, {.status = status, .payload = {}, .why = {}}, now);
}

void Protocol::cancel(std::uint64_t call, Time now) {
  finish_early(call, Status::Cancelled, now);
}

bool Protocol::stop_running(Peer& caller, std::uint64_t call) {
  const auto found = caller.running.find(call);
  if (found == caller.running.end())
    return false;
  caller.running_bytes -= found->second.bytes;
  caller.running.erase(found);
  return true;
}

void Protocol::respond(
    const Incoming& incoming, Status status, Payload payload, Time now) {
  Peer& caller = peer(incoming.from);
  if (caller.link.round() != incoming.round || !stop_running(caller, incoming.call))
    return;  // nobody waits any more
  if (incoming.from == me_)
    return finish(
        incoming.call,
        {.status = status, .payload = std::move(payload), .why = {}},
        now);
  Draft draft{
      .to = incoming.from,
      .round = incoming.round,
      .kind = MessageKind::Response,
      .call = incoming.call};
  draft.head = write_response_head({.call = incoming.call, .status = status});
  draft.payload = std::move(payload);
  post(std::move(draft), now);
}

void Protocol::receive(WorkerId from, Packet packet, Time now) {
  if (from == me_ || peer(from).gone)
    return;
  try {
    Link::Arrivals arrivals = peer(from).link.receive(std::move(packet), now);
    touch(from);
    if (arrivals.voided)
      voided(from, "it has forgotten this worker, or was started anew", now);
    for (Message& message : arrivals.messages)
      take_message(from, std::move(message), now);
  } catch (const InvalidArgument& error) {
    TRIREME_LOG(error, "rpc") << "worker " << from
                              << " sent what no worker would: " << error.what();
    cut_off(from, text("it sent what no worker would: ", error.what()), now);
  }
}

// A worker that is there hears that all is void, before nobody listens to it any more.
void Protocol::cut_off(WorkerId worker, const std::string& why, Time now) {
  gone(worker, why, now);
  for (Packet& packet : peer(worker).link.flush(now))
    effects_.packets.emplace_back(worker, std::move(packet));
  effects_.cut_off.push_back(worker);
}

void Protocol::take_message(WorkerId from, Message message, Time now) {
  switch (static_cast<MessageKind>(message.kind)) {
    case MessageKind::Request:
      return take_request(from, std::move(message), now);
    case MessageKind::Response:
      return take_response(from, std::move(message), now);
    case MessageKind::Cancel:
      return take_cancel(from, read_call(message.body));
  }
  Posting note = read_note(message);
  Consequences then;
  references_.take(from, note, then);
  carry_out(std::move(then), now);
}

void Protocol::take_request(WorkerId from, Message message, Time now) {
  MessageReader reader(message.body);
  const RequestHead head = reader.request_head();
  Peer& caller = peer(from);
  Incoming incoming{
      .from = from,
      .call = head.call,
      .round = caller.link.round(),
      .deadline = deadline_after(head.timeout, now)};
  Consequences then;
  for (const TravelMark& mark : reader.marks(peers_.size()))
    incoming.payload.references.push_back(references_.arrive(from, mark, then));
  if (head.creates.number != 0)
    incoming.creates =
        references_.make(from, head.creates, options_.make_cargo(), then);
  incoming.payload.bytes = reader.take_rest();
  incoming.payload.parts = std::move(message.parts);
  incoming.token = options_.make_token();
  carry_out(std::move(then), now);
  const bool cancelled = caller.cancelled.erase(head.call) > 0;
  if (cancelled && !incoming.creates)
    return;
  const std::uint64_t bytes = bytes_of(incoming.payload);
  if (!caller.running.emplace(head.call, Peer::Running{incoming.token, bytes}).second)
    throw InvalidArgument(text(
        "[rpc] expected a new call, got call ",
        head.call,
        " twice; do not speak to workers with other programs"));
  if (cancelled)
    effects_.cancelled.push_back({incoming.token, kNotWanted});
  incoming.full = caller.running.size() > options_.calls_per_worker ||
                  caller.running_bytes >= options_.bytes_per_worker;
  caller.running_bytes += bytes;
  effects_.calls.push_back(std::move(incoming));
}

void Protocol::take_response(WorkerId from, Message message, Time now) {
  MessageReader reader(message.body);
  const ResponseHead head = reader.response_head();
  Outcome outcome{.status = head.status, .payload = {}, .why = {}};
  Consequences then;
  for (const TravelMark& mark : reader.marks(peers_.size()))
    outcome.payload.references.push_back(references_.arrive(from, mark, then));
  carry_out(std::move(then), now);
  const auto found = pending_.find(head.call);
  if (found == pending_.end() || found->second->to != from)
    return;  // late, or not wanted any more
  outcome.payload.bytes = reader.take_rest();
  outcome.payload.parts = std::move(message.parts);
  finish(head.call, std::move(outcome), now);
}

void Protocol::take_cancel(WorkerId from, std::uint64_t call) {
  Peer& caller = peer(from);
  const auto found = caller.running.find(call);
  if (found != caller.running.end())
    effects_.cancelled.push_back({found->second.token, kNotWanted});
  else
    caller.cancelled.insert(call);  // it is on its way, or answered: nobody can tell
  if (caller.cancelled.size() > kEarlyCancels)
    caller.cancelled.erase(caller.cancelled.begin());
}

void Protocol::carry_out(Consequences then, Time now) {
  for (const Posting& note : then.postings) {
    if (note.to < 0 || note.to >= static_cast<WorkerId>(peers_.size()))
      continue;
    if (peer(note.to).gone) {
      // A reference has outlived its owner on its way here.
      if (note.note == Note::Add)
        forget(note.to, *peer(note.to).gone, now);
      continue;
    }
    peer(note.to).link.post(write_note(note), now);
    touch(note.to);
  }
  std::move(
      then.dropped.begin(), then.dropped.end(), std::back_inserter(effects_.dropped));
  for (const ObjectId& id : then.settled) {
    auto drafts = waiting_.extract(id);
    if (drafts)
      for (Draft& draft : drafts.mapped())
        post(std::move(draft), now);
  }
}

void Protocol::lost(WorkerId worker, Time now) {
  peer(worker).link.resend(now);
  touch(worker);
}

void Protocol::gone(WorkerId worker, const std::string& why, Time now) {
  Peer& ended = peer(worker);
  if (ended.gone)
    return;
  ended.gone = why;
  ended.link.reset();
  voided(worker, why, now);
}

// Nothing that was between a worker and this one counts any more.
void Protocol::voided(WorkerId worker, const std::string& why, Time now) {
  Peer& other = peer(worker);
  forget(worker, why, now);
  effects_.forgotten.emplace_back(worker, why);
  for (auto& [call, running] : other.running)
    effects_.cancelled.push_back({running.token, text("its caller is gone: ", why)});
  other.running.clear();
  other.running_bytes = 0;
  other.cancelled.clear();
  std::vector<std::uint64_t> calls;
  for (const auto& [call, pending] : pending_)
    if (pending->to == worker)
      calls.push_back(call);
  for (const std::uint64_t call : calls)
    if (pending_.at(call)->retries > 0 && !other.gone) {
      --pending_.at(call)->retries;
      send_request(call, now);
    } else {
      finish(call, {.status = Status::Lost, .payload = {}, .why = why}, now);
    }
}

// All references that are shared with a worker are void.
void Protocol::forget(WorkerId worker, const std::string& why, Time now) {
  Consequences then;
  references_.forget(worker, text("worker ", worker, ": ", why), then);
  carry_out(std::move(then), now);
}

void Protocol::tick(Time now) {
  Consequences then;
  references_.take_releases(then);
  carry_out(std::move(then), now);
  while (const std::uint64_t call = deadlines_.take(now))
    finish_early(call, Status::Late, now);
  for (WorkerId worker = 0; worker < static_cast<WorkerId>(peers_.size()); ++worker) {
    Peer& other = peer(worker);
    if (worker == me_ || other.gone)
      continue;
    const bool shared =
        references_.shares(worker) || other.calls > 0 || !other.running.empty();
    if (other.link.tick(shared, now))
      voided(
          worker, text("it was silent for ", options_.link.lease.count(), " ms"), now);
    touch(worker);
  }
}

Time Protocol::next() const {
  Time next = deadlines_.next();
  for (const auto& other : peers_)
    if (!other->gone)
      next = std::min(next, other->link.next());
  return next;
}

Effects Protocol::take_effects(Time now, bool flush) {
  if (flush) {
    for (const WorkerId worker : touched_) {
      Peer& other = peer(worker);
      other.touched = false;
      if (other.gone)
        continue;
      for (Packet& packet : other.link.flush(now))
        effects_.packets.emplace_back(worker, std::move(packet));
    }
    touched_.clear();
  }
  return std::exchange(effects_, {});
}

std::size_t Protocol::waiting(WorkerId worker) const {
  return peers_[static_cast<std::size_t>(worker)]->calls;
}

std::size_t Protocol::running() const {
  std::size_t running = 0;
  for (const auto& other : peers_)
    running += other->running.size();
  return running;
}

std::size_t Protocol::unsent() const {
  std::size_t unsent = 0;
  for (const auto& other : peers_)
    if (!other->gone)
      unsent += other->link.waiting();
  return unsent;
}

std::uint64_t Protocol::activity() const {
  std::uint64_t begun = next_call_ - first_call_;
  for (const auto& other : peers_)
    begun += other->link.posted();
  return begun;
}

std::vector<std::string> Protocol::outstanding(Time now) const {
  std::vector<std::string> lines;
  for (const auto& [call, pending] : pending_) {
    std::string line = text(pending->completion->text(), ", call ", call);
    if (!pending->posted && pending->to != me_)
      line += ", not sent";
    if (pending->deadline != Time::max())
      line += text(
          ", for ",
          std::chrono::duration_cast<std::chrono::milliseconds>(pending->deadline - now)
              .count(),
          " ms more");
    lines.push_back(std::move(line));
  }
  return lines;
}

const std::optional<std::string>& Protocol::gone(WorkerId worker) const {
  return peers_[static_cast<std::size_t>(worker)]->gone;
}

}  // namespace trireme::rpc
