// How every call over a wire begins, and the little that its algorithms share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/collective.h"
#include "trireme/comm/wire/wire.h"

namespace trireme::comm {

/// The ranks of a wire, or some of them, as they make calls together. `ranks` are those
/// of the wire that take part, in order; rank() and peers count among them.
class WireSteps {
 public:
  explicit WireSteps(std::shared_ptr<Wire> wire);
  WireSteps(std::shared_ptr<Wire> wire, std::vector<int> ranks);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  Wire& wire() const { return *wire_; }
  const std::shared_ptr<Wire>& share_wire() const { return wire_; }
  WireWorld& world() const { return wire_->world(); }
  const WireTuning& tuning() const { return wire_->world().tuning(); }
  Buffer take(size_t bytes) const { return wire_->world().pool().take(bytes); }

  /// Starts a call; the deadline holds for all of it, and must outlive it.
  void begin(const Collective& call, const Deadline& deadline);
  /// The first step of every call: meets everybody, and throws InvalidArgument on every
  /// rank unless all made the same call. The payload comes along if carries() it.
  void enter(std::span<const std::byte> payload = {});
  /// The same for a word of the caller's own; false on every rank unless all have the
  /// same. words() then has everybody's.
  bool agree(uint64_t word, std::span<const std::byte> payload = {});
  const std::vector<uint64_t>& words() const { return words_; }
  bool carries(size_t bytes) const {
    return size() <= tuning().direct_ranks && bytes <= tuning().payload_bytes;
  }
  /// What `peer` has sent along.
  const std::byte* payload(int peer) const { return slot(peer) + sizeof(uint64_t); }

  /// Transfers; see Wire.
  Wire::Transfer send(int peer, const std::byte* data, size_t bytes) {
    return wire_->send(ranks_[static_cast<size_t>(peer)], data, bytes);
  }
  Wire::Transfer receive(int peer, std::byte* data, size_t bytes) {
    return wire_->receive(ranks_[static_cast<size_t>(peer)], data, bytes);
  }
  void wait(const Wire::Transfer& transfer) { wire_->wait(transfer); }
  void finish() { wire_->finish(); }

  /// The peer `distance` after us, and before us, round the ring of all.
  int after(int distance) const { return (rank_ + distance) % size(); }
  int before(int distance) const { return (rank_ + size() - distance) % size(); }

 private:
  std::byte* slot(int peer) const {
    return slots_.data() + static_cast<size_t>(peer) * wire_->entry_bytes();
  }
  void agree_directly(uint64_t word, std::span<const std::byte> payload);
  void agree_by_tree(uint64_t word);

  std::shared_ptr<Wire> wire_;
  std::vector<int> ranks_;
  int rank_ = 0;
  uint64_t signature_ = 0;
  Buffer slots_;
  std::vector<uint64_t> words_;
};

}  // namespace trireme::comm
