// MPI in this process: there is one, whatever a program does.
#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include "trireme/comm/backend.h"
#include "trireme/comm/mpi/mpi_api.h"
#include "trireme/comm/mpi/mpi_progress.h"

namespace trireme::comm {

/// Starts MPI, ends it, and ends the job if a rank has failed. Lives as long as the
/// process: MPI itself is global state and cannot be started twice.
class MpiRuntime {
 public:
  /// Starts MPI unless the program has. NotSupported unless any thread may call it at
  /// any time (MPI_THREAD_MULTIPLE), or once it is finalized. The process ends if the
  /// other ranks do not start MPI by the deadline: MPI cannot be told to give up.
  static MpiRuntime& start(const BackendContext& context);

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The highest tag that a message may have.
  int highest_tag() const { return highest_tag_; }
  /// kMessageAlignment bytes.
  MPI_Datatype block() const { return block_; }
  MpiProgress& progress() { return progress_; }
  /// Buffers for messages and for what collectives work in.
  BufferPool& pool() { return pool_; }
  /// Whether MPI can be called no more.
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  /// This rank cannot go on. It still has its say, in main()'s catch perhaps; when it
  /// exits, the job is stopped with this reason. The first reason counts.
  void fail(const std::string& why) noexcept;
  /// Throws NotSupported if this rank has failed before.
  void check() const;

  /// Prints `message` on stderr and ends the job on all ranks.
  [[noreturn]] void stop_job(const std::string& message) const noexcept;

 private:
  explicit MpiRuntime(const BackendContext& context);
  void start_library(const BackendContext& context);
  void watch_finalize();
  static int on_finalize(MPI_Comm comm, int key, void* runtime, void* extra);
  static void on_exit();
  void end() noexcept;

  int rank_ = 0;
  int size_ = 1;
  int highest_tag_ = 0;
  MPI_Datatype block_ = MPI_DATATYPE_NULL;
  bool ours_ = false;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  std::string failure_;
  BufferPool pool_;
  MpiProgress progress_{[this](const std::string& what) { stop_job(what); }};
};

}  // namespace trireme::comm
