#include "trireme/bench/net_node_end.h"

#include <thread>
#include <utility>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

constexpr auto kAnswerTime = std::chrono::seconds(60);
// For a large message to be well under way.
constexpr auto kUnderWay = std::chrono::milliseconds(5);
constexpr std::byte kWord[4] = {};

}  // namespace

NodeEnd::NodeEnd(
    net::Security security, net::Side side, int port, const Deadline& deadline)
    : side_(side), address_(net::Address::tcp("127.0.0.1", port)) {
  net::NodeOptions options{
      .name = side == net::Side::Dialer ? "dialer" : "acceptor",
      .job = "bench",
      .security = std::move(security)};
  if (side == net::Side::Acceptor)
    options.listen = {address_};
  node_.emplace(std::move(options), static_cast<net::Receiver&>(*this));
  if (side == net::Side::Dialer)
    peer_ = node_->connect("acceptor", address_, deadline);
  else
    wait(deadline, [this] { return sessions_ > 0; });
}

NodeEnd::~NodeEnd() {
  node_->close();
}

template <class Condition>
void NodeEnd::wait(const Deadline& deadline, const Condition& condition) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, deadline.remaining(), condition))
    throw TimeoutError(text(
        "[bench] expected the other worker within ",
        deadline.allowed().count(),
        " ms, got nothing; look at its messages"));
}

void NodeEnd::send(std::span<const std::byte> bytes) {
  net::OutMessage message;
  message.body.push_back(bytes);
  peer_.send(std::move(message));
}

void NodeEnd::ask(std::span<const std::byte> message, std::span<std::byte> reply) {
  {
    const std::lock_guard lock(mutex_);
    memory_ = reply;
  }
  send(message);
  wait(Deadline::after(kAnswerTime), [&] { return arrived_ > 0; });
  const std::lock_guard lock(mutex_);
  --arrived_;
  memory_ = {};
}

std::vector<double> NodeEnd::ask_in_chain(
    int count, std::span<const std::byte> message, std::span<std::byte> reply) {
  {
    const std::lock_guard lock(mutex_);
    memory_ = reply;
    question_ = message;
    to_ask_ = count;
    asked_.clear();
    asked_.reserve(static_cast<size_t>(count) + 1);
    asked_.push_back(Clock::now());
  }
  send(message);
  wait(Deadline::after(kAnswerTime), [&] { return to_ask_ == 0; });
  const std::lock_guard lock(mutex_);
  memory_ = {};
  std::vector<double> times;
  for (size_t i = 1; i < asked_.size(); ++i)
    times.push_back(std::chrono::duration<double>(asked_[i] - asked_[i - 1]).count());
  return times;
}

// The first may have come before anybody was there to answer.
void NodeEnd::serve(
    int count, std::span<std::byte> message, std::span<const std::byte> reply) {
  int early = 0;
  {
    const std::lock_guard lock(mutex_);
    memory_ = message;
    reply_ = reply;
    to_answer_ = count;
    early = std::exchange(arrived_, 0);
  }
  for (int i = 0; i < early; ++i)
    answer(reply);
  wait(Deadline::after(kAnswerTime * 2), [&] { return to_answer_ == 0; });
  const std::lock_guard lock(mutex_);
  memory_ = {};
}

void NodeEnd::answer(std::span<const std::byte> reply) {
  send(reply);
  const std::lock_guard lock(mutex_);
  if (--to_answer_ == 0)
    changed_.notify_all();
}

std::span<std::byte> NodeEnd::place(
    const net::Peer&, const net::Envelope&, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return bytes == memory_.size() ? memory_ : std::span<std::byte>();
}

// Whoever waits may send at once when it wakes: it should find no lock taken.
void NodeEnd::received(const net::Peer&, net::InMessage message) {
  const bool is_word = message.body.size() == sizeof kWord;
  message = {};
  std::unique_lock lock(mutex_);
  if (to_answer_ > 0) {
    const auto reply = reply_;
    lock.unlock();
    return answer(reply);
  }
  if (to_ask_ > 0) {
    asked_.push_back(Clock::now());
    const bool goes_on = --to_ask_ > 0;
    lock.unlock();
    goes_on ? send(question_) : changed_.notify_all();
    return;
  }
  if (is_word)
    small_arrived_ = Clock::now();
  ++arrived_;
  lock.unlock();
  changed_.notify_all();
}

void NodeEnd::joined(const net::Peer& peer) {
  const std::lock_guard lock(mutex_);
  if (!peer_)
    peer_ = peer;
  ++sessions_;
  changed_.notify_all();
}

void NodeEnd::lost(const net::Peer&, net::Ending, const std::string&) {
  const std::lock_guard lock(mutex_);
  --sessions_;
  changed_.notify_all();
}

NodeEnd::Clock::time_point NodeEnd::overtake(std::span<const std::byte> large) {
  std::byte reply[1];
  send(large);
  std::this_thread::sleep_for(kUnderWay);
  const auto sent = Clock::now();
  ask(kWord, reply);
  return sent;
}

std::vector<NodeEnd::Clock::time_point> NodeEnd::serve_overtaking(
    int count, std::span<std::byte> large) {
  {
    const std::lock_guard lock(mutex_);
    memory_ = large;
  }
  std::vector<Clock::time_point> times;
  while (static_cast<int>(times.size()) < count) {
    wait(Deadline::after(kAnswerTime), [&] { return arrived_ == 2; });
    {
      const std::lock_guard lock(mutex_);
      times.push_back(small_arrived_);
      arrived_ = 0;
    }
    send(std::span(kWord).first(1));
  }
  const std::lock_guard lock(mutex_);
  memory_ = {};
  return times;
}

void NodeEnd::add_sessions(int count, const Deadline& deadline) {
  if (side_ == net::Side::Acceptor)
    return wait(deadline, [&] { return sessions_ > count; });
  for (int i = 0; i < count; ++i)
    more_.push_back(node_->connect("acceptor", address_, deadline));
}

void NodeEnd::drop_sessions(const Deadline& deadline) {
  for (const net::Peer& one : more_)
    one.close();
  more_.clear();
  if (side_ == net::Side::Acceptor)
    wait(deadline, [&] { return sessions_ <= 1; });
}

}  // namespace trireme::bench
