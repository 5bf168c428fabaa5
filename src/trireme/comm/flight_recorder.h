// The last calls of every rank, kept in shared memory so that survivors can write down
// what a dead rank was doing.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace trireme::comm {

/// What was called.
enum class FlightKind : uint8_t { Collective, Send, Receive };
/// How far a call has come.
enum class FlightState : uint8_t { Empty, Started, Done, Failed };

/// One call. A cache line, written by its rank alone.
struct alignas(64) FlightEntry {
  /// Counts all calls of the rank from 1; 0 is an entry that was never used.
  std::atomic<uint64_t> ticket{0};
  /// A collective's signature, or a message's bytes.
  uint64_t what = 0;
  int64_t started_ns = 0;
  std::atomic<int64_t> ended_ns{0};
  uint32_t group = 0;
  /// The number of the call in its group, or of the message in its channel, from 1.
  uint32_t sequence = 0;
  int32_t peer = -1;
  int32_t tag = 0;
  FlightKind kind = FlightKind::Collective;
  std::atomic<FlightState> state{FlightState::Empty};
};

inline constexpr size_t kFlightEntries = 1024;
inline constexpr size_t kFlightRingBytes = kFlightEntries * sizeof(FlightEntry);

/// Where the record of a stopped job goes: TRIREME_FLIGHT_DIR (empty: nowhere), else a
/// folder of this user's below the system's temporary folder.
std::string flight_folder(const std::string& job);

/// A rank's recorder over the rings of all ranks. Recording takes no lock.
///
///     auto entry = recorder.begin({.what = signature(call), .sequence = 7});
///     …
///     entry.done();   // an entry that dies without it counts as failed
class FlightRecorder {
 public:
  /// `rings` holds size × kFlightRingBytes, zeroed; `keep` keeps that memory alive.
  FlightRecorder(
      std::byte* rings,
      int rank,
      int size,
      std::string folder,
      std::shared_ptr<void> keep);

  struct Call {
    FlightKind kind = FlightKind::Collective;
    uint64_t what = 0;
    uint32_t group = 0;
    uint32_t sequence = 0;
    int32_t peer = -1;
    int32_t tag = 0;
  };

  class Record {
   public:
    Record(FlightEntry* entry, uint64_t ticket) : entry_(entry), ticket_(ticket) {}
    ~Record() { end(FlightState::Failed); }
    Record(const Record&) = delete;
    Record& operator=(const Record&) = delete;
    void done() { end(FlightState::Done); }
    /// For what is only known at the end: the size of a message that came.
    void set_what(uint64_t what) {
      if (still_here())
        entry_->what = what;
    }

   private:
    void end(FlightState state);
    /// False once 1,024 later calls have taken the place of this one.
    bool still_here() const {
      return entry_->ticket.load(std::memory_order_relaxed) == ticket_;
    }
    FlightEntry* entry_;
    uint64_t ticket_;
  };

  Record begin(const Call& call);

  /// Writes one rank's ring to FOLDER/rank_N.json; logs instead of throwing, since it
  /// runs while another error is on its way.
  void dump(int rank, const std::string& reason) const noexcept;

 private:
  FlightEntry* ring(int rank) const;
  std::string file_of(int rank) const;

  std::byte* rings_;
  int rank_;
  int size_;
  std::string folder_;
  std::shared_ptr<void> keep_;
  std::atomic<uint64_t> next_{0};
};

/// A recorder of one rank, in memory of its own. There is room for the rings of all,
/// but the system gives memory to those that are touched.
std::shared_ptr<FlightRecorder> make_own_recorder(
    int rank, int size, const std::string& folder);

}  // namespace trireme::comm
