// What waits when a call is late, for whoever looks for the reason.
#pragma once
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/rpc/errands.h"

namespace trireme::rpc {

/// Writes down what a worker waits for: to the log, and to the file "rpc-NAME.txt" in
/// the folder for flight records (TRIREME_FLIGHT_DIR); at most once a second, since
/// calls are seldom late alone. The file has the last note. It is written on a thread
/// of its own, since a disk may take long.
class FlightNotes {
 public:
  FlightNotes(std::string job, std::string worker)
      : job_(std::move(job)), worker_(std::move(worker)) {}

  /// Whether it is time for a note; then the caller makes it.
  bool due();
  /// `waiting` are the calls that wait, `running` how many of others run here.
  void write(std::string why, std::vector<std::string> waiting, std::size_t running);

 private:
  void put_down(
      const std::string& why,
      const std::vector<std::string>& waiting,
      std::size_t running) const;

  std::string job_;
  std::string worker_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_{};
  std::atomic<int> writing_{0};
  Errands writer_{1};
};

}  // namespace trireme::rpc
