// Large parts for a worker of the same host: copied once, into memory that it sees too,
// and used again when it has let go.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/net/node.h"
#include "trireme/rpc/arena.h"
#include "trireme/rpc/arena_blocks.h"
#include "trireme/rpc/packet.h"

namespace trireme::rpc {

/// The side of one session that sends. Its arena is this session's alone, so that what
/// a lost worker may still look at is never used again: it goes with the session.
/// Thread-safe.
class Lender {
 public:
  explicit Lender(std::uint64_t bytes) : bytes_(bytes) {}

  /// Copies a part to where the other side finds it, and says where. Nothing before
  /// the other side has taken the offer, or where there is no room.
  std::optional<std::uint64_t> lend(const Part& part);
  /// What the other side must be told, once: how to find the arena.
  std::optional<ArenaOffer> take_offer();
  void answered(bool accepted);
  /// The other side has let go; InvalidArgument for what it does not have. True if the
  /// caller must call trim() after a while.
  bool returned(const std::vector<std::uint64_t>& offsets);
  /// Gives memory that nobody has used for a while back to the system. True if it must
  /// be called again.
  bool trim();

  std::uint64_t lent_bytes() const;

 private:
  enum class State { New, Offered, Accepted, Declined };
  std::optional<std::uint64_t> take(std::uint64_t bytes);
  void release_free();

  const std::uint64_t bytes_;
  mutable std::mutex mutex_;
  std::atomic<State> state_{State::New};
  bool offer_due_ = false;
  std::shared_ptr<Arena> arena_;
  ArenaBlocks blocks_{0};
  std::uint64_t reserved_ = 0;  // memory is there up to here
  std::uint64_t uses_ = 0, uses_before_ = 0;
  bool trim_armed_ = false;
};

/// The side that receives.
class Borrower : public std::enable_shared_from_this<Borrower> {
 public:
  /// What was let go of is said over `peer`.
  explicit Borrower(net::Peer peer) : peer_(std::move(peer)) {}

  /// Whether the offer of `maker` can be taken.
  bool accept(const ArenaOffer& offer, const ProcessPlace& maker);
  /// The part that lies there; it is given back when nobody holds it any more.
  /// InvalidArgument for a place that is not in the arena.
  Part borrow(std::uint64_t offset, std::uint64_t bytes);

 private:
  struct Loan;
  void let_go(std::uint64_t offset);

  const net::Peer peer_;
  std::mutex mutex_;
  std::shared_ptr<Arena> arena_;
  std::vector<std::uint64_t> let_go_;
  bool telling_ = false;
};

/// The messages of both, as headers of envelopes.
std::string encode_returns(const std::vector<std::uint64_t>& offsets);
std::vector<std::uint64_t> decode_returns(const std::string& header);
std::string encode_offer(const ArenaOffer& offer);
ArenaOffer decode_offer(const std::string& header);
std::string encode_answer(bool accepted);
bool decode_answer(const std::string& header);

}  // namespace trireme::rpc
