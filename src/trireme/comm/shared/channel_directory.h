// How a receiver finds the ring that a sender has made: every rank publishes a list of
// its sending ends, which only it extends and everybody reads.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "trireme/comm/shared/world.h"

namespace trireme::comm {

/// Names a channel within a world: a directed edge of a group, with a tag.
struct ChannelKey {
  uint32_t group = 0;
  int32_t from = 0;
  int32_t to = 0;
  int32_t tag = 0;
  bool operator==(const ChannelKey&) const = default;
};

/// The state of a channel, in the sender's list: a set of these. The memory of a list
/// is never freed, so a receiver can look here before it dares to touch the ring.
struct ChannelState {
  enum Bit : uint32_t {
    HasRing = 1,
    HasReceiver = 2,
    /// No sender any more, but perhaps messages.
    SenderGone = 4,
    /// No messages any more either: nobody may connect, and the ring may go.
    Drained = 8,
  };
};

/// A part of a rank's list. Full pages link to the next.
struct ChannelPage {
  static constexpr uint32_t kEntries = 62;
  struct Entry {
    ChannelKey key;  // written once
    std::atomic<uint64_t> ring{0};
    std::atomic<uint32_t> state{0};
  };
  std::atomic<uint64_t> next{0};
  Entry entries[kEntries];
};

/// This rank's list, and a view of the others'.
class ChannelDirectory {
 public:
  using Entry = ChannelPage::Entry;
  explicit ChannelDirectory(World& world) : world_(world) {}

  /// Publishes a ring; InvalidArgument if the same channel still has one.
  Entry& publish(const ChannelKey& key, uint64_t ring);
  /// The sender goes; `drained` says whether everything that it sent has been received.
  /// It is asked while no receiver is there, and so cannot change any more.
  static void leave_as_sender(Entry& entry, const std::function<bool()>& drained);
  /// Takes the ring off the list, unless a receiver holds it: then false.
  static bool remove_ring(Entry& entry);

  /// The channel of sender `from` (a world rank), null if it was never opened.
  Entry* find(int from, const ChannelKey& key) const;
  /// Becomes the receiver of a ring; false if there is none to receive from.
  /// InvalidArgument if another receiver holds it.
  static bool connect(Entry& entry);
  /// The receiver goes; `drained` is asked only once the sender is gone.
  static void leave_as_receiver(Entry& entry, const std::function<bool()>& drained);

  /// Rises whenever `sender` publishes a ring.
  Flag& changes(int sender) const { return world_.control().slot(sender).channels; }

 private:
  Entry& append(const ChannelKey& key);

  World& world_;
  std::mutex mutex_;
  ChannelPage* last_ = nullptr;
  uint32_t count_ = 0;
};

}  // namespace trireme::comm
