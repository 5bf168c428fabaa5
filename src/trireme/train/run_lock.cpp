#include "trireme/train/run_lock.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>

#include "trireme/comm/agree.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/machine.h"
#include "trireme/core/proc_text.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnerFile = "job.pid";

// "process 17 on host"; a file that a killed job has left says nothing of this one.
std::string owner_of(const fs::path& run) {
  std::istringstream in(read_text_file(run / kOwnerFile).value_or(""));
  pid_t pid = 0;
  std::string host;
  if (!(in >> pid >> host) || pid <= 0 ||
      (host == host_name() && ::kill(pid, 0) != 0 && errno == ESRCH))
    return "another process";
  return text("process ", pid, " on ", escaped(host));
}

[[noreturn]] void refuse_busy(const fs::path& run) {
  throw InvalidArgument(text(
      "[train] expected a run's folder that no other job uses, got ",
      in_quotes(run.string()),
      ", where ",
      owner_of(run),
      " trains; wait until that has ended, or set job.dump_folder to another"));
}

ckpt::FolderLock take_lock(const fs::path& run) {
  // Who only looks has it for a moment, too.
  constexpr int kTries = 10;
  constexpr std::chrono::milliseconds kMoment{10};
  // One lock, whatever links lead there.
  std::error_code error;
  const fs::path real = fs::canonical(run, error);
  for (int i = 0;; ++i) {
    ckpt::FolderLock lock(error ? run : real);
    if (lock.state() != ckpt::FolderLock::State::Busy)
      return lock;
    if (i == kTries)
      refuse_busy(run);
    std::this_thread::sleep_for(kMoment);
  }
}

}  // namespace

RunLock::RunLock(const fs::path& run)
    : owner_(run / kOwnerFile), lock_(take_lock(run)) {
  // A help for messages, no more: without it they name nobody.
  std::ofstream(owner_, std::ios::trunc) << ::getpid() << " " << host_name() << "\n";
}

RunLock::~RunLock() {
  std::error_code ignored;
  fs::remove(owner_, ignored);
}

std::unique_ptr<RunLock> lock_run(const comm::Group& world, const fs::path& run) {
  std::unique_ptr<RunLock> lock;
  std::string refusal;
  if (world.rank() == 0) {
    try {
      lock = std::make_unique<RunLock>(run);
    } catch (const InvalidArgument& error) {
      refusal = error.what();
    }
  }
  refusal = comm::share_text(world, refusal);
  if (!refusal.empty())
    throw InvalidArgument(refusal);
  return lock;
}

void check_unlocked(const fs::path& run) {
  if (std::error_code ignored; fs::is_directory(run, ignored))
    take_lock(run);
}

}  // namespace trireme::train
