// Worlds of ranks for tests: as threads, or as processes that may be killed.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <type_traits>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/core/shared_value.h"

namespace trireme::testing {

using RankBody = std::function<void(const comm::Group&)>;

/// A kind of world, by the name of its backend.
///
///     run_world(Backend::Shm, 4, [](const comm::Group& world) { barrier(world); });
enum class Backend {
  Local,       // threads, the local backend
  ShmThreads,  // threads, the shm engine: for ThreadSanitizer
  Shm,         // processes
};
std::string to_string(Backend backend);

/// How long a world of a test may take.
struct WorldOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

/// Runs `body` on every rank and throws if one of them failed. In processes a failed
/// expectation of gtest fails its rank, and with it the test.
void run_world(
    Backend backend, int ranks, const RankBody& body, const WorldOptions& options = {});

/// How a process ended.
struct Ending {
  int exit_code = -1;
  /// The signal that ended it, or 0.
  int signal = 0;
};

/// A LaunchEnv for one rank of a job on this host that no other test uses.
comm::Group join_job(
    const std::string& job,
    int rank,
    int ranks,
    std::chrono::milliseconds timeout = std::chrono::seconds(30));

/// A name that no other process uses.
std::string fresh_job_name();

/// Processes of this test. Whatever happens, none outlives this object.
class Processes {
 public:
  Processes() = default;
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Forks; the child runs `body` and exits with its result, or with 1 if it throws or
  /// an expectation fails.
  pid_t start(const std::function<int()>& body);

  /// Starts all ranks of a job, each a process that runs `body` in its world and exits
  /// with its result, if it has one.
  template <class Body>
  void start_ranks(const std::string& job, int ranks, const Body& body) {
    for (int rank = 0; rank < ranks; ++rank)
      start([&, rank] {
        const comm::Group world = join_job(job, rank, ranks);
        if constexpr (std::is_void_v<std::invoke_result_t<Body, const comm::Group&>>) {
          body(world);
          return 0;
        } else {
          return body(world);
        }
      });
  }

  void kill(size_t index, int signal) const;
  pid_t pid(size_t index) const { return pids_[index]; }
  size_t size() const { return pids_.size(); }
  /// Waits for all; kills those that are not done in time (signal 9 in their ending).
  std::vector<Ending> wait(std::chrono::milliseconds limit);

 private:
  std::vector<pid_t> pids_;
};

/// InternalError naming the ranks that did not exit with 0.
void expect_good_ends(const std::vector<Ending>& endings);

/// What a rank exits with that has noticed the death of another.
inline constexpr int kNoticed = 42;

/// Expects that the victim was killed, and that all others have noticed.
void expect_noticed(const std::vector<Ending>& endings, int victim);

/// A number that processes share: those that are started after it is made.
using SharedNumber = SharedValue<std::atomic<int64_t>>;

}  // namespace trireme::testing
