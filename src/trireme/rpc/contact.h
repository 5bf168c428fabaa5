// What a transport knows of one other worker: its sessions, and what waits for one.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/net/node.h"
#include "trireme/rpc/lending.h"
#include "trireme/rpc/packet.h"
#include "trireme/rpc/roster.h"

namespace trireme::rpc {

/// Decides and remembers; who uses it dials, sends and tells. Thread-safe.
class Contact {
 public:
  using Clock = std::chrono::steady_clock;
  /// `arena_bytes`: how much may be lent to it at once; 0 if it cannot see it.
  Contact(
      Member member,
      net::Address address,
      std::size_t waiting_bytes,
      std::uint64_t arena_bytes)
      : member_(std::move(member)),
        address_(std::move(address)),
        waiting_limit_(waiting_bytes),
        arena_bytes_(arena_bytes) {}

  const Member& member() const { return member_; }
  WorkerId id() const { return member_.info.id; }
  const std::string& name() const { return member_.info.name; }
  /// Where to dial it.
  const net::Address& address() const { return address_; }

  /// How to send a packet.
  struct Way {
    /// Over this session; none if the packet was taken to wait, or dropped.
    net::Peer peer;
    /// What large parts go through; may be null.
    std::shared_ptr<Lender> lender;
    /// Nobody dials yet: the caller must.
    bool dial = false;
    bool dropped = false;
  };
  Way way_for(Packet& packet);

  /// What to do when a session has begun, on whichever side. Who is dialled may speak
  /// before the dialling is over: of one that is known already nothing is new.
  struct Begun {
    /// The worker is gone; the session is not wanted.
    bool refused = false;
    std::shared_ptr<Lender> lender;
    /// What has waited for it.
    std::vector<Packet> packets;
    /// Some did not find room.
    bool dropped = false;
  };
  Begun begin(const net::Peer& peer, bool dialled);
  /// What had waited is on its way.
  void posted();

  /// What to do when a session, or an attempt to have one, has ended.
  struct Ended {
    /// No other session is there.
    bool last = false;
    /// Something that was sent, or waited, may never have arrived.
    bool lost = false;
    /// The caller must dial, after a pause.
    bool dial = false;
    std::chrono::milliseconds pause{0};
  };
  Ended end(const net::Peer& peer);
  Ended fail_to_dial();
  /// Whether the one who dials shall still do so; if not, nobody dials any more.
  bool wants_dial();

  /// It will not come back; true for the first who says so.
  bool set_gone();
  bool is_gone() const;

  /// Those of a session; null if there are none.
  std::shared_ptr<Lender> lender(const net::Peer& peer) const;
  std::shared_ptr<Borrower> borrower(const net::Peer& peer) const;
  bool knows(const net::Peer& peer) const;

  std::vector<net::Peer> sessions() const;
  /// Whether nothing waits, and all is acknowledged.
  bool is_idle() const;

 private:
  struct Session {
    net::Peer peer;
    Clock::time_point since;
    std::shared_ptr<Lender> lender;
    std::shared_ptr<Borrower> borrower;
  };
  const Session* find(const net::Peer& peer) const;
  std::chrono::milliseconds next_pause();

  const Member member_;
  const net::Address address_;
  const std::size_t waiting_limit_;
  const std::uint64_t arena_bytes_;
  mutable std::mutex mutex_;
  std::vector<Session> sessions_;  // the first is the one to send over
  std::vector<Packet> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool dropped_ = false;
  bool dialling_ = false;  // somebody does, or will after a pause
  bool gone_ = false;
  int failures_ = 0;
};

}  // namespace trireme::rpc
