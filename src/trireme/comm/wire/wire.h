// What a network does for a group of ranks: transfers from rank to rank, and how they
// fail. The collectives above it are written once, for every wire.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/comm/flight_recorder.h"
#include "trireme/comm/group_id.h"
#include "trireme/core/buffer_pool.h"
#include "trireme/core/deadline.h"

namespace trireme::comm {

/// Where one way of doing a collective gives way to another. The defaults are for
/// programs; tests set others to come to every branch with few ranks and bytes.
struct WireTuning {
  /// Up to this many ranks tell one another of a call directly, so that those who did
  /// not come can be named; more agree by a tree.
  int direct_ranks = 16;
  /// Up to this many bytes ride along with the word of the call, where that goes
  /// directly.
  size_t payload_bytes = size_t{2} << 10;
  /// Up to this many bytes of all ranks together everybody collects everything.
  size_t small_bytes = size_t{256} << 10;
  /// A large reduction is cut into pieces of this size.
  size_t chunk_bytes = size_t{8} << 20;
  /// Pieces of this size follow one another down the chain of hosts.
  size_t chain_bytes = size_t{512} << 10;
  /// More than this is broadcast in pieces of this size, from rank to rank; less goes
  /// down a tree.
  size_t broadcast_bytes = size_t{512} << 10;
};

/// What the groups of one rank share: who it is, and what its calls need.
class WireWorld {
 public:
  struct Setup {
    /// The backend's name, as users give it to init().
    std::string backend;
    int rank = 0;
    int size = 1;
    WireTuning tuning;
    std::shared_ptr<FlightRecorder> recorder;
  };
  explicit WireWorld(Setup setup) : setup_(std::move(setup)) {}
  virtual ~WireWorld() = default;
  WireWorld(const WireWorld&) = delete;
  WireWorld& operator=(const WireWorld&) = delete;

  const std::string& backend() const { return setup_.backend; }
  int rank() const { return setup_.rank; }
  int size() const { return setup_.size; }
  const WireTuning& tuning() const { return setup_.tuning; }
  FlightRecorder& recorder() const { return *setup_.recorder; }
  /// Numbers for the groups that this rank leads.
  GroupIds& group_ids() { return group_ids_; }
  /// Buffers for what collectives work in.
  virtual BufferPool& pool() = 0;
  /// Says how long who waits may ask again without pause; zero where the ranks of this
  /// machine outnumber its cores.
  virtual void set_spin(std::chrono::nanoseconds) {}

  /// Gives this rank one bell: that of another world, of which it is a part, rings for
  /// the channels of this one, too. Called once, before there are any; nothing happens
  /// for a wire without a bell.
  virtual void share_bell(std::shared_ptr<Doorbell>) {}

  /// Stops the world: every call of every group there throws.
  virtual void stop(const Failure& failure) noexcept = 0;
  /// Throws what the world was stopped by, if it was.
  virtual void check() const = 0;
  /// Tells the others, of a world that has been stopped, why this rank will not come to
  /// its renewal. For wires that have one.
  virtual void stay_away(const Failure&) noexcept {}

  /// Whom to tell when this world fails, or if it has failed already, wherever that
  /// began: another world, of which the same rank is a part. Called once, from any
  /// thread; must not block.
  void on_failure(std::function<void(const Failure&)> tell);

 protected:
  /// For wires: tells the one who asked, or will ask; the first failure counts. Who
  /// calls it while another thread is at it waits until it is done.
  void tell_failure(const Failure& failure) const noexcept;

 private:
  void pass_on() const noexcept;
  Setup setup_;
  GroupIds group_ids_{setup_.rank, setup_.size};
  mutable std::mutex mutex_;  // held while it tells
  mutable std::function<void(const Failure&)> tell_;
  mutable std::optional<Failure> failure_;
};

/// A place in a group.
struct WireSeat {
  /// The members' ranks in the world.
  std::vector<int> members;
  int rank = 0;
  /// The same on all members, different from other groups of the world; 0: the world.
  uint32_t id = 0;
};

/// One group's ranks on a wire. Collectives use it from one thread at a time; channels
/// are independent of them, and of one another.
class Wire {
 public:
  explicit Wire(WireSeat seat) : seat_(std::move(seat)) {}
  virtual ~Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  int rank() const { return seat_.rank; }
  int size() const { return static_cast<int>(seat_.members.size()); }
  const std::vector<int>& members() const { return seat_.members; }
  uint32_t id() const { return seat_.id; }
  virtual const std::shared_ptr<WireWorld>& share_world() const = 0;
  WireWorld& world() const { return *share_world(); }

  /// Starts a call: what its transfers belong to, for errors, and until when they may
  /// take. The deadline must outlive the call.
  void begin(uint64_t signature, const Deadline& deadline);
  /// Says whether the transfers under way are those of ranks that come to the call: who
  /// is waited for then has not come.
  void set_entering(bool entering) { entering_ = entering; }
  uint64_t signature() const { return signature_; }

  /// A transfer that was begun; what wait() is told.
  struct Transfer {
    size_t first = 0;
    size_t count = 0;
  };
  /// Transfers run side by side. Those between two ranks arrive in the order in which
  /// they were started; nothing happens for zero bytes. The memory must stay until
  /// wait() or finish() has returned, or thrown. What is at most entry_bytes() long is
  /// sent without waiting for its receiver, who may have given up.
  virtual Transfer send(int peer, const std::byte* data, size_t bytes) = 0;
  /// What comes may be shorter than `bytes` if that is at most entry_bytes().
  virtual Transfer receive(int peer, std::byte* data, size_t bytes) = 0;
  /// Waits for one of them. Throws PeerError where a peer is gone or the world was
  /// stopped. If the deadline passes, the world is stopped: a wire that can take its
  /// transfers back throws TimeoutError, one that cannot ends the job.
  virtual void wait(const Transfer& transfer) = 0;
  /// Waits for all of them.
  virtual void finish() = 0;
  /// Sends a copy of at most entry_bytes() for which nobody waits: a last word.
  virtual void post(int peer, std::span<const std::byte> bytes) = 0;

  /// The longest message that may ride with a call.
  size_t entry_bytes() const;

  /// How some of this group's ranks become a group; all ranks of this one call it, with
  /// the same wish as the others of their part.
  struct Part {
    int color = -1;
    int key = 0;
    /// Who has this colour, counted in this group and in the order of the new one.
    std::vector<int> ranks;
    WireSeat seat;
  };
  /// The part's wire; null for a negative colour.
  virtual std::shared_ptr<Wire> split(const Part& part) = 0;

  virtual std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) = 0;
  virtual std::unique_ptr<ReceivePort> open_receive(int from, int tag) = 0;

  /// A new generation of the same ranks, after a failure; NotSupported where a wire has
  /// no way back.
  virtual std::shared_ptr<Wire> renew(const Deadline& deadline) = 0;

 protected:
  const Deadline& deadline() const { return *deadline_; }
  /// What to say when the deadline has passed and these (ranks of this group) are
  /// waited for.
  std::string late_text(std::vector<int> waited_for) const;

 private:
  WireSeat seat_;
  uint64_t signature_ = 0;
  const Deadline* deadline_ = nullptr;
  bool entering_ = false;
};

}  // namespace trireme::comm
