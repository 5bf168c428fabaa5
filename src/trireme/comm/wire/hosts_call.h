// One call of a group over several hosts: how it begins, and the steps inside a host
// and between hosts that it is made of.
#pragma once
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/per_rank.h"
#include "trireme/comm/shared/shared_engine.h"
#include "trireme/comm/wire/host_layout.h"
#include "trireme/comm/wire/wire_steps.h"
#include "trireme/core/error.h"

namespace trireme::comm {

/// A rank's hold on a group over several hosts.
struct HostsGroup {
  HostsGroup(
      std::shared_ptr<SharedEngine> its_inner,
      std::shared_ptr<Wire> wire,
      HostLayout its_layout);

  /// The ranks of this host; the first of them is its leader.
  std::shared_ptr<SharedEngine> inner;
  /// All ranks.
  WireSteps all;
  /// One rank a host, where this is one of them.
  std::optional<WireSteps> leaders;
  HostLayout layout;

  int rank() const { return all.rank(); }
  int size() const { return all.size(); }
  bool leads() const { return leaders.has_value(); }
};

/// One call of one rank. Its waits have three deadlines: who waits for another host
/// waits longer than who waits for a rank of its own to come, and who waits for its
/// leader longer still, so that the one who knows best who is missing is the first to
/// say so.
class HostsCall {
 public:
  HostsCall(HostsGroup& group, const Collective& call, const Deadline& deadline);
  HostsCall(const HostsCall&) = delete;
  HostsCall& operator=(const HostsCall&) = delete;

  HostsGroup& group() const { return group_; }
  const HostLayout& layout() const { return group_.layout; }
  const Collective& call() const { return call_; }
  bool leads() const { return group_.leads(); }
  WireSteps& leaders() const { return *group_.leaders; }
  const WireTuning& tuning() const { return group_.all.tuning(); }
  Buffer take(size_t bytes) const { return group_.all.take(bytes); }

  /// The first half of every call: the ranks of a host come together, then the hosts.
  /// Everybody's `values`, which are as long on all ranks, come to the leaders.
  void enter(std::span<const std::byte> values = {});
  /// What a rank has brought along; for leaders.
  const std::byte* value(int rank) const { return slot(rank) + sizeof(uint64_t); }
  /// Whether all have made the same call; for leaders.
  bool agreed() const { return agreed_ && !trouble_; }
  /// The second half: the leader tells the others of its host. Throws InvalidArgument
  /// on every rank unless all made the same call. The leader's `news`, which are as
  /// long on all ranks, come along.
  void announce(std::span<std::byte> news = {});

  /// A step of this host's ranks, as a part of the call.
  void inside(Collective part) const;
  /// `piece` of the leader becomes everybody's on this host.
  void spread(const Piece& piece) const;
  /// Pieces of the leader, one a rank of this host, become theirs.
  void hand_out(std::span<const Piece> give, const Piece& take, size_t longest) const;
  /// What `from`, a rank of this host, has becomes the leader's.
  void hand_in(int from, const Piece& piece) const;

 private:
  /// What a leader tells the others of its host first.
  enum class News : uint64_t { Agreed, Differs, Failed };
  std::byte* slot(int rank) const {
    return slots_.data() + static_cast<size_t>(rank) * slot_bytes_;
  }
  void gather_slots(std::span<const std::byte> values);
  void compare_host(const std::exception_ptr& error);
  void meet_hosts();
  void trade_blocks(std::byte* blocks, size_t bytes_a_rank);
  void post_failure(const PeerError& error);
  void check_failures() const;
  [[noreturn]] void stop_because(const InvalidArgument& error);
  [[noreturn]] void fail_with(News news);
  int inner_rank(int rank) const { return rank - layout().leader(layout().mine); }

  HostsGroup& group_;
  const Collective& call_;
  uint64_t signature_;
  Deadline inside_, between_, after_;
  size_t slot_bytes_ = 0;
  Buffer slots_;                      // of a leader: every rank's word and values
  std::vector<uint64_t> signatures_;  // of all ranks; only this host's at first
  bool host_agrees_ = true;
  bool agreed_ = true;
  std::exception_ptr trouble_;  // of a leader, between hosts
};

/// A call that all ranks have entered, in each of the ways there are.
void reduce_over_hosts(HostsCall& call);
void move_over_hosts(HostsCall& call);
/// The large reductions: down the chain of hosts in the order of the ranks.
void reduce_by_chain(HostsCall& call);

}  // namespace trireme::comm
