// Keeps spinning ranks off one another's cores. The scheduler may put two ranks on one
// core and leave them there, although others are idle: then each spins while the other
// could answer, and what takes a microsecond takes ten.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

namespace trireme::comm {

/// Where the ranks were seen last; one rank's view. The numbers lie in shared memory.
class CoreSeats {
 public:
  /// Gives the place where a rank tells its core; -1 stands for unknown.
  using SeatOf = std::function<std::atomic<int32_t>&(int rank)>;
  CoreSeats(int rank, int size, SeatOf seat_of)
      : rank_(rank), size_(size), seat_of_(std::move(seat_of)) {}

  /// Tells the others where this thread runs, and moves it to a free core if a lower
  /// rank runs here too. The thread's set of allowed cores stays as it was. Does
  /// something at most every few milliseconds, since a move costs more than it saves at
  /// once.
  void settle();

 private:
  bool crowded(int core) const;
  void move() const;

  int rank_;
  int size_;
  SeatOf seat_of_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace trireme::comm
