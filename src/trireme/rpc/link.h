// What one worker has to say to another, over a transport that may lose it: every
// message arrives once, in any order, as long as both remember each other.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "trireme/rpc/packet.h"

namespace trireme::rpc {

using Time = std::chrono::steady_clock::time_point;

/// What travels inside packets.
struct Message {
  std::uint8_t kind = 0;
  std::string body;
  std::vector<Part> parts;
};

struct LinkOptions {
  /// How long the other may be silent, while there is something between the two, until
  /// all that is between them counts as lost.
  std::chrono::milliseconds lease = std::chrono::seconds(30);
  /// When to send again what was not acknowledged. Zero for transports that say what
  /// they have lost.
  std::chrono::milliseconds resend{0};
  /// How long an acknowledgement waits for a packet that goes that way anyway.
  std::chrono::milliseconds acknowledge{20};
  /// Small messages share a packet up to this size.
  std::size_t packet_bytes = std::size_t{64} << 10;
};

/// One end. Both ends name the time during which they remember each other by two
/// numbers, one from each side, which only grow: an end that has lost faith takes a new
/// one, and whatever belongs to an older pair is passed over. So what was between two
/// workers is either all there or void on both sides, and never in part.
///
/// It does no I/O and reads no clock: who uses it hands over packets and the time.
class Link {
 public:
  /// `name` begins above all that this worker has ever used towards the other.
  Link(const LinkOptions& options, std::uint64_t name);

  /// Queues a message for the next packets.
  void post(Message message, Time now);

  /// What a packet has brought.
  struct Arrivals {
    /// All that was before these messages is void: the other has begun anew.
    bool voided = false;
    std::vector<Message> messages;
  };
  /// Takes a packet; InvalidArgument for one that no link would write.
  Arrivals receive(Packet packet, Time now);

  /// The packets that are due.
  std::vector<Packet> flush(Time now);
  /// Whether flush() has something to send at once.
  bool due() const { return answer_ || asks_ || unsent(); }

  /// What was sent may be lost: it goes out again.
  void resend(Time now);

  /// Looks at the time; `shared` says whether there is something between the two beside
  /// messages. True if the lease has expired: then all is void.
  bool tick(bool shared, Time now);
  /// When tick() wants to be called; Time::max() if nothing waits.
  Time next() const;

  /// Gives up on all that is between the two. The other learns of it.
  void reset();

  /// Counts how often all became void: what was begun under another number is over.
  std::uint64_t round() const { return round_; }
  /// How many messages were ever posted.
  std::uint64_t posted() const { return posted_; }
  /// Messages that are not acknowledged.
  std::size_t waiting() const { return kept_.size(); }

 private:
  bool unsent() const;
  void watch(Time now);
  void forget();
  void acknowledge(std::uint64_t number, Time now);
  void take_messages(class PacketCursor& cursor, Arrivals& arrivals);
  bool is_new(std::uint64_t number);
  Packet begin_packet(bool asks) const;
  void fill(Packet& packet);

  LinkOptions options_;
  std::uint64_t mine_;        // my name for this time
  std::uint64_t theirs_ = 0;  // the newest of the other, 0 before the first packet
  bool open_ = false;         // the other has shown that it knows mine_
  std::uint64_t round_ = 0;
  std::uint64_t posted_ = 0;

  std::deque<Message> kept_;  // not acknowledged yet; the first has the number first_
  std::uint64_t first_ = 1;
  std::size_t sent_ = 0;  // how many of kept_ are on their way

  std::uint64_t got_ = 0;          // all up to this number have come
  std::set<std::uint64_t> ahead_;  // and these
  bool owes_ = false;              // an acknowledgement
  bool answer_ = false;            // the other waits for a packet
  bool asks_ = false;              // it has been silent for a while

  bool watching_ = false;  // there is something between the two
  Time heard_{}, asked_{}, ticked_{}, said_{}, owes_since_{}, sent_since_{};
  std::chrono::milliseconds patience_{0};  // until all is sent again
};

}  // namespace trireme::rpc
