// The store: a small map that all processes of a job share, by which they find each
// other.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/core/deadline.h"

namespace trireme::net {

/// A key has 1 to 1024 bytes, a value at most 1 MiB, and one call waits for at most 1
/// MiB of keys, each of which counts four bytes more than it has.
inline constexpr std::size_t kStoreKeyBytes = 1024;
inline constexpr std::size_t kStoreValueBytes = std::size_t{1} << 20;
inline constexpr std::size_t kStoreWaitBytes = std::size_t{1} << 20;

/// What a store holds at most. It is meant for addresses and counters, not for tensors.
struct StoreLimits {
  /// All keys and values together, with kStoreEntryBytes for each.
  std::size_t total_bytes = std::size_t{64} << 20;
  /// The keys of all waits and the prefixes of all watches, counted alike.
  std::size_t waiting_bytes = std::size_t{64} << 20;
};
/// What an entry costs beside its key and its value.
inline constexpr std::size_t kStoreEntryBytes = 128;

/// What a watch reports.
struct StoreChange {
  enum class Kind {
    Set,
    Erased,
    /// The watcher was so slow that changes were dropped. What they would have said can
    /// be read from the store; the watch goes on.
    Lost,
  };
  Kind kind = Kind::Set;
  /// Empty for Lost.
  std::string key;
  /// The new value of a key that was set.
  std::string value;
  bool operator==(const StoreChange&) const = default;
};

/// Holds a watch open; destroying it ends the watch. After that no call comes, and none
/// is still running, unless it is the call itself that ends it. It may outlive its
/// store.
class [[nodiscard]] StoreWatch {
 public:
  StoreWatch() = default;
  explicit StoreWatch(std::function<void()> stop) : stop_(std::move(stop)) {}
  ~StoreWatch() { stop(); }
  StoreWatch(StoreWatch&& other) noexcept
      : stop_(std::exchange(other.stop_, nullptr)) {}
  StoreWatch& operator=(StoreWatch&& other) noexcept {
    stop();
    stop_ = std::exchange(other.stop_, nullptr);
    return *this;
  }
  void stop() {
    if (auto call = std::exchange(stop_, nullptr))
      call();
  }

 private:
  std::function<void()> stop_;
};

/// What compare_set() found.
struct StoreSwap {
  bool swapped = false;
  /// What is there afterwards; nothing if the key is absent.
  std::optional<std::string> value;
};

/// A map from keys to values, both of any bytes, with calls that wait. There are three
/// kinds: MemoryStore (one process), FileStore (a folder that all can reach) and
/// TcpStore (one process hosts it, the others connect); open_store() chooses by a URL.
/// Any thread may call, and each call takes effect at one moment between its begin and
/// its end.
///
/// Calls throw InvalidArgument for what is above the limits, TimeoutError when their
/// time is over, and Error (PeerError where a rank hosts the store) when it is gone.
/// Calls without a deadline have the store's own timeout.
///
///     std::shared_ptr<Store> store = open_store("env://");
///     store->set("rank/3", "10.0.0.7:4711");
///     std::string first = store->get("rank/0",
///     Deadline::after(std::chrono::minutes(1))); if (store->add("arrived", 1) ==
///     world_size) store->set("all here", ""); auto watch = store->watch("rank/",
///     [](const StoreChange& change) { … });
class Store {
 public:
  using Callback = std::function<void(const StoreChange&)>;

  virtual ~Store() = default;

  /// Puts a value under a key, in place of the one that may be there.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// The value of a key; waits for it until the deadline.
  virtual std::string get(std::string_view key, Deadline deadline) = 0;
  /// The value that is there now, or nothing.
  virtual std::optional<std::string> try_get(std::string_view key) = 0;
  /// Adds to a whole number, and returns the sum; the store keeps it as decimal text. A
  /// key that is not there counts as 0. InvalidArgument if the value is not a number,
  /// or the sum does not fit.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;
  /// Sets the key to `desired` if it now is `expected`; no `expected` stands for
  /// absent.
  virtual StoreSwap compare_set(
      std::string_view key,
      std::optional<std::string_view> expected,
      std::string_view desired) = 0;
  /// Waits until all keys are there at once. TimeoutError names those that are not.
  virtual void wait(const std::vector<std::string>& keys, Deadline deadline) = 0;
  /// Removes a key; whether it was there.
  virtual bool erase(std::string_view key) = 0;
  /// All keys that begin so, in order of their bytes. Keys that come or go during the
  /// call may be among them or not.
  virtual std::vector<std::string> keys(std::string_view prefix) = 0;
  /// Calls `callback` for every change, from now on, of a key that begins so: in order,
  /// from one thread that belongs to the store. It may use the store, but a slow one
  /// misses changes (StoreChange::Kind::Lost). What it throws is logged.
  virtual StoreWatch watch(std::string_view prefix, Callback callback) = 0;
};

/// A part of a store: all keys get `prefix` before them, and watchers do not see it.
///
///     PrefixStore attempt("job/3/", store);
///     attempt.set("rank/0", address);  // "job/3/rank/0" in the store
class PrefixStore : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);

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

 private:
  std::string full(std::string_view key) const;

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

/// InvalidArgument unless it can be a key.
void check_store_key(std::string_view key);
/// InvalidArgument unless it can be a prefix of one.
void check_store_prefix(std::string_view prefix);
/// InvalidArgument unless it can be a value.
void check_store_value(std::string_view value);
/// InvalidArgument unless one call can wait for them.
void check_store_keys(const std::vector<std::string>& keys);

/// What a call throws that waited for keys in vain: names the missing ones of all
/// `keys`.
[[noreturn]] void throw_missing_keys(
    std::size_t keys, const std::vector<std::string>& missing, Deadline deadline);

}  // namespace trireme::net
