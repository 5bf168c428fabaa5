// Where what comes over tcp meets who waits for it.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "trireme/comm/doorbell.h"
#include "trireme/comm/engine.h"
#include "trireme/comm/tcp/past_groups.h"
#include "trireme/comm/wire/wire_lanes.h"
#include "trireme/core/buffer_pool.h"

namespace trireme::comm {

/// Up to this many bytes go at once, as a copy, whether somebody waits for them or not.
/// More wait until the receiver has said where they shall go: nothing large ever lies
/// about unasked for, and one group's transfers never stand in another's way.
inline constexpr size_t kEagerBytes = size_t{64} << 10;

/// One transfer of a collective, at either end.
struct TcpTransfer {
  /// The group, and the other end: a rank of the world.
  uint32_t group = 0;
  int peer = 0;
  /// Counts the transfers of this group with this peer in this direction from 1.
  uint64_t number = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  bool sends = false;
  /// Guarded by the mail's lock.
  bool done = false;
  bool under_way = false;  // the network may touch the memory
  bool lost = false;       // of a send: its session has ended
};
using TcpTransferPtr = std::shared_ptr<TcpTransfer>;

/// A channel's end: its group, the other end's rank in the world, and its tag.
using TcpChannelKey = std::tuple<uint32_t, int, int>;

/// The state of one rank's world that its threads and the I/O thread share, under one
/// lock. Its bell rings for whatever happens to a channel.
class TcpMail : public Doorbell {
 public:
  /// Of a rank in a world of so many.
  explicit TcpMail(int ranks = 1) : past_(ranks) {}

  // -- transfers; from a rank's threads

  /// Expects a transfer. True if it has come already, and lies in its memory now.
  bool expect(const TcpTransferPtr& transfer);
  /// Whether the receiver of a large transfer is ready; if not, it is kept until it is.
  bool may_send(const TcpTransferPtr& transfer);
  /// Forgets transfers that are not done. Gives the peers whose sessions still touch
  /// their memory: those must be dropped before it goes.
  std::vector<int> withdraw(std::span<const TcpTransferPtr> transfers);

  // -- transfers; from the I/O thread

  /// Where the bytes of a transfer go, if somebody expects it.
  std::span<std::byte> place(uint32_t group, int peer, uint64_t number, size_t bytes);
  /// They have come: to their place, or to `buffer`. InvalidArgument if they do not
  /// fit.
  void arrived(uint32_t group, int peer, uint64_t number, Buffer buffer);
  /// The receiver is ready; gives the transfer that has waited for it, if one has.
  TcpTransferPtr ready(uint32_t group, int peer, uint64_t number);
  /// It has arrived, or never will.
  void sent(const TcpTransferPtr& transfer, bool arrived);

  // -- groups

  /// A member has left a group.
  void left(uint32_t group, int peer);
  /// This rank has left it. What was kept for it goes; what `talkers`, members that
  /// know this rank, still have under way goes when it comes.
  void close_group(uint32_t group, std::span<const int> talkers);
  /// Of how many groups something is kept.
  size_t groups();

  // -- channels

  /// The next message of a channel, if one has come.
  std::optional<Buffer> take(const TcpChannelKey& key);
  bool has_message(const TcpChannelKey& key);
  void deliver(const TcpChannelKey& key, Buffer message);
  /// What the receiver has taken.
  WireCredit credit(const TcpChannelKey& key);
  void set_credit(const TcpChannelKey& key, const WireCredit& credit);
  /// The sender has closed its end after so many messages.
  void close_channel(const TcpChannelKey& key, uint64_t messages);
  /// Whether it has, as often as the receiver has opened its own, and `taken` were all.
  bool is_closed(const TcpChannelKey& key, uint64_t taken, uint64_t openings);

  void listen() override {}
  void stop_listening() noexcept override {}
  void ring() override {
    const std::lock_guard lock(mutex_);
    ring_locked();
  }
  /// From now on that bell rings along, as long as it lives.
  void ring_along(const std::weak_ptr<Doorbell>& other) {
    const std::lock_guard lock(mutex_);
    other_bell_ = other;
  }
  uint32_t rings() const override { return rings_.load(); }
  void await_ring(uint32_t seen, std::chrono::milliseconds limit) override;

  // -- failures

  /// The first one counts; false for later ones.
  bool fail(const Failure& failure);
  /// A rank has closed its world.
  void rank_left(int rank);
  /// Throws what the world was stopped by, if it was.
  void check();
  /// Why somebody does not come to the renewal of this world: the first reason counts;
  /// false for later ones.
  bool note_absence(const Failure& failure);
  /// Throws it, if it is known.
  void check_absence();
  /// A last word is on its way to a rank, until it is there or never will be.
  void telling(int rank);
  void told(int rank);
  /// A rank has said why it stops: it needs no reason of ours, only to know that its
  /// own has come.
  void told_by(int rank);
  /// Waits until no word is on its way to these any more, or the time is over.
  void await_told(std::span<const int> ranks, std::chrono::milliseconds limit);

  /// Waits until `condition`, called under the lock, is true, or the world has failed;
  /// false when the time is over.
  template <class Condition>
  bool wait(std::chrono::milliseconds time, const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return condition() || failure_; });
  }
  /// For conditions of wait().
  bool gone_locked(uint32_t group, int rank) const {
    const Group* found = find_locked(group);
    return ranks_left_.contains(rank) ||
           (found != nullptr && found->left.contains(rank));
  }
  /// Whether a transfer that is not done will never be. What a receiver has a place for
  /// may arrive although it has left since: only the session knows.
  bool hopeless_locked(const TcpTransfer& transfer) const {
    return transfer.sends && transfer.under_way
               ? transfer.lost
               : gone_locked(transfer.group, transfer.peer);
  }
  bool has_message_locked(const TcpChannelKey& key) const {
    const Channel* found = find_locked(key);
    return found != nullptr && !found->messages.empty();
  }
  /// Whether the sender has closed its end, and messages before that are on their way:
  /// large ones are slower than the word that it has left.
  bool more_coming_locked(const TcpChannelKey& key, uint64_t taken) const {
    const Channel* found = find_locked(key);
    return found != nullptr && found->closed_after > taken;
  }
  WireCredit credit_locked(const TcpChannelKey& key) const {
    const Channel* found = find_locked(key);
    return found == nullptr ? WireCredit() : found->credit;
  }

 private:
  /// One direction between two ranks of a group.
  struct Lane {
    std::map<uint64_t, TcpTransferPtr> expected;
    std::map<uint64_t, Buffer> early;
    std::set<uint64_t> ready;
    std::map<uint64_t, TcpTransferPtr> stalled;
  };
  struct Channel {
    std::deque<Buffer> messages;
    uint64_t arrived = 0;  // messages, taken or not
    WireCredit credit;
    std::optional<uint64_t> closed_after;
    uint64_t closings = 0;

    bool awaits_more() const { return closed_after && *closed_after > arrived; }
  };
  /// What is known of a group, from the first word that comes to the last.
  struct Group {
    std::map<int, Lane> incoming, outgoing;           // by the other end
    std::map<std::pair<int, int>, Channel> channels;  // by the other end and tag
    std::set<int> left;
    /// This rank has left, and drops what comes.
    bool closed = false;
    /// Then: who may still send something.
    std::set<int> talkers;
  };
  const Group* find_locked(uint32_t group) const {
    const auto found = groups_.find(group);
    return found == groups_.end() ? nullptr : &found->second;
  }
  const Channel* find_locked(const TcpChannelKey& key) const;
  Channel& channel(const TcpChannelKey& key);
  bool is_over(uint32_t group) const;
  void settle(uint32_t group);
  void ring_locked() {
    ++rings_;
    changed_.notify_all();
    if (const auto other = other_bell_.lock())
      other->ring();
  }

  std::atomic<uint32_t> rings_{0};
  std::weak_ptr<Doorbell> other_bell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, Group> groups_;
  PastGroups past_;  // what is said of these comes too late
  std::set<int> ranks_left_;
  std::multiset<int> telling_;
  std::set<int> told_by_;
  std::optional<Failure> failure_, absence_;
};

}  // namespace trireme::comm
