#include "trireme/net/session.h"

#include <utility>

#include "trireme/core/error.h"
#include "trireme/net/line.h"
#include "trireme/net/node_core.h"

namespace trireme::net {
namespace {

// One connection's share of a turn: the others wait that long.
constexpr std::size_t kTurnBytes = std::size_t{1} << 20;
// How much may come before it is acknowledged without waiting for something to say.
constexpr std::uint64_t kAckBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kAckFrames = 64;
constexpr auto kAckDelay = std::chrono::milliseconds(20);

void tell(const Finished& finished, bool arrived) {
  for (const auto& outgoing : finished)
    if (outgoing->message.done)
      outgoing->message.done(arrived);
}

}  // namespace

/// What InMessage::allowance holds: gives the bytes back when it goes.
struct Session::Holding {
  Holding(std::shared_ptr<Session> its_session, const Inbox::Cost& its_cost)
      : session(std::move(its_session)), cost(its_cost) {}
  ~Holding() { session->let_go(cost); }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  std::shared_ptr<Session> session;
  Inbox::Cost cost;
};

Session::Session(std::shared_ptr<NodeCore> core, std::string name, SessionId id)
    : core_(std::move(core)),
      name_(std::move(name)),
      id_(id),
      inbox_(core_->options().limits, core_->pool()),
      heard_(Clock::now()) {
  queue_.open(core_->options().limits, !core_->options().security.encrypted());
}

// -- any thread

void Session::send(OutMessage message) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_ && !closing_) {
      queue_.push(std::move(message));
      write_line();
      return;
    }
  }
  if (message.done)
    message.done(false);
}

// The connection's end, if it comes now, is seen by the I/O thread as well: there it is
// dealt with.
void Session::write_line() {
  if (!line_)
    return;
  if (line_->connection().write(*this, kTurnBytes) == Connection::Turn::More)
    core_->reactor().post([line = line_] { line->ready(); });
}

void Session::close() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || std::exchange(closing_, true))
      return;
  }
  core_->reactor().post(
      [self = shared_from_this()] { self->core_->start_leaving(self); });
}

void Session::drop() {
  const auto lose = [self = shared_from_this()] {
    self->core_->lose(self, Ending::Closed, "dropped");
  };
  if (core_->reactor().in_thread())
    return lose();
  // Also where it has ended: the I/O thread may be in the middle of that. If the thread
  // has ended, the promise goes with the task.
  auto lost = std::make_shared<std::promise<void>>();
  const auto done = lost->get_future();
  core_->reactor().post([lose, lost = std::move(lost)] {
    lose();
    lost->set_value();
  });
  done.wait();
}

bool Session::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

std::string Session::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

std::size_t Session::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return queue_.queued_bytes();
}

bool Session::closing() const {
  const std::lock_guard lock(mutex_);
  return closing_;
}

void Session::let_go(const Inbox::Cost& cost) {
  const std::lock_guard lock(mutex_);
  const std::size_t lane = cost.small ? 0 : 1;
  released_[lane] += cost.bytes;
  held_[lane] -= cost.bytes;
  if (ended_ || !line_)
    return;
  const Limits& limits = core_->options().limits;
  const std::uint64_t window = cost.small ? limits.small_window : limits.large_window;
  const bool much = released_[lane] - released_told_[lane] >= window / 4;
  // A large sender may be waiting for just this; a small one is told with the next
  // frame.
  if (much || (!cost.small && held_[lane] == 0)) {
    ack_due_ = true;
    write_line();
  } else {
    ack_soon();
  }
}

// -- frames out, with the lock held

// All of it may be acknowledged before its last byte counts as written (see
// Stream::write). Then it goes without the lock.
void Session::written(OutFrame&& frame) {
  if (frame.message.use_count() == 1)
    core_->reactor().post([last = std::move(frame.message)] {});
}

bool Session::next(OutFrame& out) {
  // Nothing follows the goodbye: the other side ends with it, and this one closes its
  // half of the stream.
  if (leave_sent_)
    return false;
  if (std::exchange(ack_due_, false)) {
    out.frame = {.kind = FrameKind::Ack, .id = released_[0], .body = released_[1]};
    released_told_[0] = released_[0];
    released_told_[1] = released_[1];
  } else if (queue_.next(out)) {
  } else if (closing_ && queue_.idle()) {
    leave_sent_ = true;
    out.frame = {.kind = FrameKind::Leave};
  } else if (std::exchange(ping_due_, false)) {
    out.frame = {.kind = FrameKind::Ping};
  } else {
    return false;
  }
  out.frame.ack = received_;
  received_told_ = received_;
  unacked_bytes_ = 0;
  out.head = encode(out.frame);
  return true;
}

bool Session::nothing_to_ack() const {
  return received_ == received_told_ && released_[0] == released_told_[0] &&
         released_[1] == released_told_[1];
}

// With the lock held; the timer itself belongs to the I/O thread.
void Session::ack_soon() {
  if (std::exchange(timer_armed_, true))
    return;
  if (core_->reactor().in_thread())
    arm_ack_timer();
  else
    core_->reactor().post([self = shared_from_this()] { self->arm_ack_timer(); });
}

void Session::arm_ack_timer() {
  core_->reactor().at(Clock::now() + kAckDelay, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self)
      return;
    const std::lock_guard lock(self->mutex_);
    self->timer_armed_ = false;
    if (self->ended_ || !self->line_ || self->nothing_to_ack())
      return;
    self->ack_due_ = true;
    self->write_line();
  });
}

// -- frames in, on the I/O thread

std::span<std::byte> Session::begin(const Frame& frame, std::string header) {
  if (!frame.is_data() || ended_)
    return {};
  {
    const std::lock_guard lock(mutex_);
    inbox_.set_released(released_[0], released_[1]);
  }
  const Peer peer(shared_from_this());
  return inbox_.begin(
      frame, std::move(header), [&](const Envelope& envelope, std::size_t bytes) {
        return core_->ask(
            [&](Receiver& receiver) { return receiver.place(peer, envelope, bytes); });
      });
}

void Session::end(const Frame& frame) {
  if (ended_)
    return;
  switch (frame.kind) {
    case FrameKind::Message:
    case FrameKind::Chunk:
    case FrameKind::Ack:
    case FrameKind::Ping:
      break;
    case FrameKind::Leave:
      peer_left_ = true;
      break;
    default:
      throw InvalidArgument(text(
          "[net] expected a greeting only at the start of a connection, got another "
          "from ",
          name_,
          "; the peer does not keep to the protocol"));
  }
  std::optional<InMessage> message;
  if (frame.is_data())
    message = inbox_.end();
  take_ack(frame);
  if (message)
    deliver(std::move(*message));
}

void Session::take_ack(const Frame& frame) {
  Finished finished;
  {
    const std::lock_guard lock(mutex_);
    if (line_ && line_->connection().is_writing(frame.ack))
      throw InvalidArgument(text(
          "[net] expected an acknowledgement of what was sent, got one of frame ",
          frame.ack,
          ", which is still on its way out; the peer's state is not that of this "
          "session"));
    queue_.acknowledged(frame.ack, finished);
    if (frame.kind == FrameKind::Ack)
      queue_.released(frame.id, frame.body);
    if (frame.is_data()) {
      received_ = inbox_.received();
      unacked_bytes_ += frame.payload_bytes;
      if (unacked_bytes_ >= kAckBytes || received_ - received_told_ >= kAckFrames)
        ack_due_ = true;
      else
        ack_soon();
    }
    // An acknowledgement may let more go, or end what lingers.
    if (ack_due_ || frame.kind == FrameKind::Ack || closing_)
      write_line();
  }
  tell(finished, true);
}

void Session::deliver(InMessage message) {
  const Inbox::Cost cost = inbox_.last_cost();
  {
    const std::lock_guard lock(mutex_);
    held_[cost.small ? 0 : 1] += cost.bytes;
    if (!cost.small) {
      // The sender of a large message waits for its memory.
      ack_due_ = true;
      write_line();
    }
  }
  message.allowance = std::make_shared<Holding>(shared_from_this(), cost);
  core_->ask([&](Receiver& receiver) {
    receiver.received(Peer(shared_from_this()), std::move(message));
  });
}

bool Session::read() {
  const auto line = line_;
  const auto turn =
      line->connection().read(*this, core_->reactor().scratch(), kTurnBytes, mutex_);
  heard_ = Clock::now();
  if (turn == Connection::Turn::More)
    core_->reactor().again(line->connection().stream().fd());
  return turn == Connection::Turn::Closed;
}

bool Session::flush() {
  const std::lock_guard lock(mutex_);
  if (!line_)
    return false;
  const auto turn = line_->connection().write(*this, kTurnBytes);
  if (turn == Connection::Turn::More)
    core_->reactor().again(line_->connection().stream().fd());
  return turn == Connection::Turn::Closed;
}

// -- its life, on the I/O thread

Hello Session::greeting() const {
  const std::lock_guard lock(mutex_);
  const NodeOptions& options = core_->options();
  return {
      .job = options.job,
      .incarnation = options.incarnation,
      .from = options.name,
      .to = name_,
      .session = id_,
      .resumed = was_connected,
      .received = inbox_.received(),
      .released_small = released_[0],
      .released_large = released_[1],
      .limits = options.limits};
}

void Session::attach(const std::shared_ptr<Line>& line, const Hello& theirs) {
  Finished finished;
  std::shared_ptr<Line> old = line;
  {
    const std::lock_guard lock(mutex_);
    if (!was_connected)
      queue_.open(theirs.limits, !core_->options().security.encrypted());
    else
      ack_due_ = true;  // for what was let go of since the greeting
    queue_.rewind(theirs.received, finished);
    queue_.released(theirs.released_small, theirs.released_large);
    inbox_.forget_frame();
    leave_sent_ = false;
    // The greeting has told these.
    received_told_ = received_;
    old.swap(line_);
  }
  heard_ = attached_ = Clock::now();
  was_connected = true;
  attempts = 0;
  tell(finished, true);
}

void Session::detach() {
  std::shared_ptr<Line> old;  // what it was writing goes without the lock
  const std::lock_guard lock(mutex_);
  old.swap(line_);
}

void Session::end(Ending ending, const std::string& why) {
  Finished finished;
  std::shared_ptr<Line> old;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true))
      return;
    why_ = why;
    old.swap(line_);
    queue_.abandon(finished);
  }
  tell(finished, false);
  if (was_connected)
    core_->tell_lost(Peer(shared_from_this()), ending, why);
}

void Session::tick() {
  const auto now = Clock::now();
  const auto heartbeat = core_->options().heartbeat;
  if (now - attached_ > heartbeat)
    silences = 0;
  bool silent = false;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || !line_)
      return;
    silent = now - heard_ > heartbeat / 2;
    // Four times a heartbeat, whatever was said in between: one that counted from the
    // last word would come up to twice as late, and the other side waits for half of
    // one.
    ping_due_ = true;
    write_line();
  }
  if (silent)
    core_->fell_silent(shared_from_this(), heard_);
}

}  // namespace trireme::net
