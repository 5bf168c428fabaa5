// The thread that sees sends through while their rank does something else.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/mpi/mpi_api.h"
#include "trireme/core/buffer_pool.h"
#include "trireme/core/deadline.h"

namespace trireme::comm {

/// Keeps what is being sent until it is sent. MPI moves a large message only while its
/// sender asks about it, so a thread asks as long as there is one, and sleeps
/// otherwise. It starts with the first message that does not go at once.
class MpiProgress {
 public:
  /// `on_error` gets what MPI says of a transfer that failed on the thread, and must
  /// not come back: a message would be lost.
  explicit MpiProgress(std::function<void(const std::string&)> on_error)
      : on_error_(std::move(on_error)) {}
  ~MpiProgress() { stop(); }
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;

  /// Sends `buffer`, `count` units of `type`, and keeps it as long as MPI needs it.
  struct Envelope {
    int to = 0;
    int tag = 0;
    MPI_Comm comm = MPI_COMM_NULL;
  };
  void send(const Envelope& envelope, Buffer buffer, int count, MPI_Datatype type);

  /// Keeps the buffer of a transfer that has been started.
  void adopt(MPI_Request request, Buffer buffer);

  /// Messages that are not sent yet.
  size_t pending() const;
  /// Waits until everything is sent, or the deadline; gives what is left.
  size_t drain(const Deadline& deadline);
  /// Ends the thread. What is not sent by now stays with MPI.
  void stop();

 private:
  struct Transfers {
    std::vector<MPI_Request> requests;
    std::vector<Buffer> buffers;
  };
  void loop();
  static void test(Transfers& active);

  std::function<void(const std::string&)> on_error_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Transfers fresh_;   // not yet seen by the thread
  Transfers active_;  // the thread's own
  size_t pending_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trireme::comm
