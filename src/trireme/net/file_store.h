// The store in a folder that all processes can reach, where nobody need host it.
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>

#include "trireme/net/store.h"

namespace trireme::net {

struct FileStoreOptions {
  StoreLimits limits;
  /// How long a call without a deadline may wait for the lock.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// How often those who wait look at least; they begin with one millisecond.
  std::chrono::milliseconds poll = std::chrono::milliseconds(50);
};

/// A store in a folder, shared by processes of one host, or of several over NFS with
/// locks. It survives every process that is killed: what was set stays, and what a
/// killed writer had half written is gone. It is protected by the rights of the folder,
/// which only its owner may write to. Waiting is looking again and again, so it is
/// slower than the other kinds; limits are checked by whoever writes.
///
/// Nobody removes it by himself, as nobody knows who is last. Give each job a new path,
/// and let its creator call remove() when all ranks have ended: ranks that find the
/// store of a former job would meet its ghosts.
///
///     FileStore store("/shared/job-17/store");
///     store.set("rank/0", address);
///     …
///     FileStore::remove("/shared/job-17/store");  // the launcher, at the end
class FileStore : public Store {
 public:
  explicit FileStore(const std::filesystem::path& path, FileStoreOptions options = {});
  ~FileStore() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, Deadline deadline) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  StoreSwap compare_set(
      std::string_view key,
      std::optional<std::string_view> expected,
      std::string_view desired) override;
  void wait(const std::vector<std::string>& keys, Deadline deadline) override;
  bool erase(std::string_view key) override;
  std::vector<std::string> keys(std::string_view prefix) override;
  StoreWatch watch(std::string_view prefix, Callback callback) override;

  /// Removes the folder of a store and all that is in it; whether there was one.
  static bool remove(const std::filesystem::path& path);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trireme::net
