#include "trireme/net/file_store.h"

#include <csignal>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

#include "store_conformance.h"
#include "trireme/core/scratch_folder.h"

namespace trireme::net {
namespace {

struct FileFlavour {
  static constexpr const char* kPrefix = "";

  explicit FileFlavour(StoreLimits given = {}) : limits(given) {}
  // Each has its own files open, as another process would.
  std::shared_ptr<Store> open() const {
    return std::make_shared<FileStore>(
        scratch.path() / "store", FileStoreOptions{.limits = limits});
  }

  ScratchFolder scratch;
  StoreLimits limits;
};

INSTANTIATE_TYPED_TEST_SUITE_P(File, StoreConformance, FileFlavour);

TEST(FileStore, OutlivesThoseWhoUseIt) {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "store";
  FileStore(path).set("a", "1");
  EXPECT_EQ(FileStore(path).try_get("a"), "1");
  EXPECT_TRUE(FileStore::remove(path));
  EXPECT_EQ(FileStore(path).try_get("a"), std::nullopt);
}

/// A process that counts in the store until it is killed, and tells how far it came.
class Counter {
 public:
  explicit Counter(const std::filesystem::path& path) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0)
      count(path, ends[1]);
    ::close(ends[1]);
    pipe_ = ends[0];
  }
  ~Counter() { ::close(pipe_); }
  pid_t pid() const { return pid_; }
  /// Waits until it has begun to count.
  void wait_for_first() {
    EXPECT_EQ(::read(pipe_, &last_, sizeof last_), ssize_t{sizeof last_});
  }

  /// The last sum that it was given.
  std::int64_t kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    while (::read(pipe_, &last_, sizeof last_) == ssize_t{sizeof last_}) {
    }
    return last_;
  }

 private:
  [[noreturn]] static void count(const std::filesystem::path& path, int pipe) {
    try {
      FileStore store(path);
      // Values large enough that many kills come in the middle of a write, and of
      // writing the log anew.
      const std::string large(kStoreValueBytes, 'v');
      for (int i = 0;; ++i) {
        store.set(text("large/", i % 2), large);
        const std::int64_t sum = store.add("sum", 1);
        if (::write(pipe, &sum, sizeof sum) != ssize_t{sizeof sum})
          break;
      }
    } catch (const std::exception&) {
    }
    ::_exit(1);
  }

  pid_t pid_ = -1;
  int pipe_ = -1;
  std::int64_t last_ = 0;
};

TEST(FileStore, SurvivesWritersThatAreKilled) {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "store";
  const auto quiet = set_log_sink([](std::string_view) {});
  FileStore watcher(path);
  std::mt19937 random(7);
  std::int64_t sum = 0;
  for (int round = 0; round < 20; ++round) {
    Counter first(path);
    Counter second(path);
    if (round % 4 != 0)  // sometimes already when they open the store
      first.wait_for_first();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    const std::int64_t told = std::max({sum, first.kill(), second.kill()});
    // Each may have been killed between its addition and its word about it.
    sum = watcher.add("sum", 0);
    EXPECT_GE(sum, told);
    EXPECT_LE(sum, told + 2);
    for (const std::string& key : watcher.keys("large/"))
      EXPECT_EQ(watcher.try_get(key)->size(), kStoreValueBytes);
    EXPECT_EQ(FileStore(path).add("sum", 0), sum);
  }
  EXPECT_GE(sum, 15);
}

TEST(FileStore, AStoppedProcessDoesNotHoldUpOthersForLonger) {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "store";
  FileStore store(path, {.timeout = std::chrono::milliseconds(200)});
  int caught = 0;
  for (int attempt = 0; attempt < 200 && caught == 0; ++attempt) {
    Counter counter(path);
    counter.wait_for_first();
    std::this_thread::sleep_for(std::chrono::milliseconds(attempt % 7));
    // Not every moment is one in which it holds the lock.
    ::kill(counter.pid(), SIGSTOP);
    const double seconds = seconds_of([&] {
      try {
        store.set("mine", "1");
      } catch (const TimeoutError& error) {
        ++caught;
        EXPECT_NE(std::string(error.what()).find("within 200 ms"), std::string::npos);
      }
    });
    EXPECT_LT(seconds, 30);
    counter.kill();
  }
  EXPECT_GT(caught, 0);
  store.set("mine", "2");
}

}  // namespace
}  // namespace trireme::net
