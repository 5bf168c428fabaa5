#include "trireme/comm/mpi/mpi_runtime.h"

#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/log.h"

namespace trireme::comm {
namespace {

// At the end of the process, for messages that nobody has received so far.
constexpr std::chrono::seconds kDrainTime{10};

// What on_exit() is about: atexit() passes nothing.
MpiRuntime* the_runtime = nullptr;

void print_line(const std::string& message) {
  std::cout.flush();
  const std::string line = message + "\n";
  // Not through the log: this must be seen whatever TRIREME_LOG says.
  for (size_t done = 0; done < line.size();) {
    const ssize_t wrote =
        ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (wrote <= 0)
      break;
    done += static_cast<size_t>(wrote);
  }
}

/// Ends the process if it is not destroyed in time: for a call that waits for the other
/// ranks and takes no deadline.
class StartWatch {
 public:
  explicit StartWatch(const BackendContext& context)
      : thread_([this, context] { watch(context); }) {}
  ~StartWatch() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void watch(const BackendContext& context) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, context.deadline.remaining(), [this] { return over_; }))
      return;
    print_line(text(
        "[comm] rank ",
        context.env.rank,
        " of ",
        context.env.world_size,
        " stopped: expected all ranks at the start of MPI within ",
        context.deadline.allowed().count(),
        " ms, but not all of them came; see that every rank calls init(), or allow "
        "more "
        "time (TRIREME_TIMEOUT)"));
    std::_Exit(1);  // mpirun ends the job
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

MpiRuntime& MpiRuntime::start(const BackendContext& context) {
  // For good: threads may still use it.
  static MpiRuntime& runtime = *new MpiRuntime(context);
  if (runtime.ended())
    throw NotSupported(
        "[comm] expected MPI to be running, got one that was finalized; MPI cannot be "
        "started twice in a process");
  runtime.check();
  return runtime;
}

MpiRuntime::MpiRuntime(const BackendContext& context) {
  start_library(context);
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  int* highest = nullptr;
  int found = 0;
  check_mpi(
      MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest, &found),
      "MPI_Comm_get_attr");
  highest_tag_ = found != 0 ? *highest : 32767;  // what every MPI has
  check_mpi(
      MPI_Type_contiguous(kMessageAlignment, MPI_BYTE, &block_), "MPI_Type_contiguous");
  check_mpi(MPI_Type_commit(&block_), "MPI_Type_commit");
  watch_finalize();
}

void MpiRuntime::start_library(const BackendContext& context) {
  int running = 0, over = 0, level = 0;
  MPI_Finalized(&over);
  if (over != 0)
    throw NotSupported(
        "[comm] expected MPI to be running, got one that was finalized; MPI cannot be "
        "started twice in a process");
  MPI_Initialized(&running);
  ours_ = running == 0;
  if (ours_) {
    const StartWatch watch(context);
    check_mpi(
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level),
        "MPI_Init_thread");
  } else {
    check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  }
  if (level >= MPI_THREAD_MULTIPLE)
    return;
  if (ours_)
    MPI_Finalize();
  throw NotSupported(text(
      "[comm] expected MPI to take calls from any thread (MPI_THREAD_MULTIPLE), got "
      "level ",
      level,
      ours_ ? "; use an MPI that is built with it"
            : "; ask for it in MPI_Init_thread, or leave starting MPI to init()"));
}

// MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF, whoever calls it.
void MpiRuntime::watch_finalize() {
  int key = MPI_KEYVAL_INVALID;
  check_mpi(
      MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, nullptr),
      "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, this), "MPI_Comm_set_attr");
  the_runtime = this;
  std::atexit(on_exit);
}

int MpiRuntime::on_finalize(MPI_Comm, int, void* runtime, void*) {
  static_cast<MpiRuntime*>(runtime)->end();
  return MPI_SUCCESS;
}

void MpiRuntime::on_exit() {
  if (the_runtime->ended())
    return;
  if (the_runtime->ours_)
    MPI_Finalize();  // calls end()
  else
    the_runtime->end();
}

void MpiRuntime::end() noexcept {
  std::string why;
  {
    std::lock_guard lock(mutex_);
    why = failure_;
  }
  if (!why.empty())
    stop_job(why);
  const size_t left = progress_.drain(Deadline::after(kDrainTime));
  if (left > 0)
    TRIREME_LOG(warn, "comm") << "rank " << rank_
                              << " leaves messages behind that nobody has received: "
                              << left;
  progress_.stop();
  ended_.store(true, std::memory_order_release);
}

void MpiRuntime::fail(const std::string& why) noexcept {
  std::lock_guard lock(mutex_);
  if (failure_.empty())
    failure_ = why;
}

void MpiRuntime::check() const {
  std::lock_guard lock(mutex_);
  if (!failure_.empty())
    throw NotSupported(text(
        "[comm] expected a rank that has not failed, but ",
        failure_,
        "; MPI has no way back: start the job again"));
}

void MpiRuntime::stop_job(const std::string& message) const noexcept {
  print_line(message);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);  // MPI_Abort should not return, but may
}

}  // namespace trireme::comm
