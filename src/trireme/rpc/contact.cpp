#include "trireme/rpc/contact.h"

#include <algorithm>
#include <utility>

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{5000};
// A session that has lasted so long was worth its while.
constexpr milliseconds kLasting{5000};
// What a packet counts for that waits, beside what is in it.
constexpr std::size_t kPacketCost = 256;

std::size_t cost_of_waiting(const Packet& packet) {
  std::size_t bytes = kPacketCost + packet.head.size();
  for (const Part& part : packet.parts)
    bytes += part.bytes.size();
  return bytes;
}

}  // namespace

Contact::Way Contact::way_for(Packet& packet) {
  const std::lock_guard lock(mutex_);
  if (!sessions_.empty())
    return {.peer = sessions_.front().peer, .lender = sessions_.front().lender};
  if (gone_)
    return {};
  Way way{.dial = !std::exchange(dialling_, true)};
  const std::size_t cost = cost_of_waiting(packet);
  // One that is above the limit waits alone.
  if (!waiting_.empty() && waiting_bytes_ + cost > waiting_limit_) {
    dropped_ = way.dropped = true;
    return way;
  }
  waiting_bytes_ += cost;
  waiting_.push_back(std::move(packet));
  return way;
}

Contact::Begun Contact::begin(const net::Peer& peer, bool dialled) {
  const std::lock_guard lock(mutex_);
  if (dialled)
    dialling_ = false;
  if (gone_)
    return {.refused = true};
  if (const Session* const known = find(peer))
    return {.lender = known->lender};
  Session session{.peer = peer, .since = Clock::now()};
  if (arena_bytes_ > 0) {
    session.lender = std::make_shared<Lender>(arena_bytes_);
    session.borrower = std::make_shared<Borrower>(peer);
  }
  sessions_.push_back(session);
  return {
      .lender = session.lender,
      .packets = std::exchange(waiting_, {}),
      .dropped = std::exchange(dropped_, false)};
}

void Contact::posted() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty())
    waiting_bytes_ = 0;
}

Contact::Ended Contact::end(const net::Peer& peer) {
  Session ended;  // it goes without the lock
  const std::lock_guard lock(mutex_);
  const Session* const session = find(peer);
  if (session == nullptr)
    return {.last = sessions_.empty()};
  const auto found = sessions_.begin() + (session - sessions_.data());
  if (Clock::now() - found->since >= kLasting)
    failures_ = 0;
  const bool was_first = found == sessions_.begin();
  ended = std::move(*found);
  sessions_.erase(found);
  Ended result{.last = sessions_.empty(), .lost = was_first};
  if (result.last && !gone_ && !std::exchange(dialling_, true)) {
    result.dial = true;
    result.pause = next_pause();
  }
  return result;
}

Contact::Ended Contact::fail_to_dial() {
  std::vector<Packet> dropped;  // they go without the lock
  const std::lock_guard lock(mutex_);
  if (gone_ || !sessions_.empty()) {
    dialling_ = false;
    return {};
  }
  dropped.swap(waiting_);
  waiting_bytes_ = 0;
  return {
      .last = true,
      .lost = std::exchange(dropped_, false) || !dropped.empty(),
      .dial = true,
      .pause = next_pause()};
}

milliseconds Contact::next_pause() {
  const auto pause = kFirstPause * (1 << std::min(failures_++, 7));
  return std::min<milliseconds>(pause, kLongestPause);
}

bool Contact::wants_dial() {
  const std::lock_guard lock(mutex_);
  dialling_ = !gone_ && sessions_.empty();
  return dialling_;
}

bool Contact::set_gone() {
  std::vector<Packet> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(waiting_);
  waiting_bytes_ = 0;
  return !std::exchange(gone_, true);
}

bool Contact::is_gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

const Contact::Session* Contact::find(const net::Peer& peer) const {
  const auto found =
      std::find_if(sessions_.begin(), sessions_.end(), [&](const Session& one) {
        return one.peer == peer;
      });
  return found == sessions_.end() ? nullptr : &*found;
}

std::shared_ptr<Lender> Contact::lender(const net::Peer& peer) const {
  const std::lock_guard lock(mutex_);
  const Session* const session = find(peer);
  return session == nullptr ? nullptr : session->lender;
}

std::shared_ptr<Borrower> Contact::borrower(const net::Peer& peer) const {
  const std::lock_guard lock(mutex_);
  const Session* const session = find(peer);
  return session == nullptr ? nullptr : session->borrower;
}

bool Contact::knows(const net::Peer& peer) const {
  const std::lock_guard lock(mutex_);
  return find(peer) != nullptr;
}

std::vector<net::Peer> Contact::sessions() const {
  const std::lock_guard lock(mutex_);
  std::vector<net::Peer> peers;
  for (const Session& session : sessions_)
    peers.push_back(session.peer);
  return peers;
}

bool Contact::is_idle() const {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_bytes_ > 0)
      return false;
  }
  for (const net::Peer& peer : sessions())
    if (peer.queued_bytes() > 0)
      return false;
  return true;
}

}  // namespace trireme::rpc
