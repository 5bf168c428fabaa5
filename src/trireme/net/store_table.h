// A whole store as a state machine: entries, and who waits for or watches them. It does
// no I/O and has no clock; the memory store and the server drive it.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/net/store_map.h"

namespace trireme::net {

/// Who asks: a client, and the number that it gave its request. Whoever drives the
/// table numbers the clients.
struct StoreCaller {
  std::uint64_t client = 0;
  std::uint64_t request = 0;
  auto operator<=>(const StoreCaller&) const = default;
};

/// An answer, and for whom.
struct StoreOutput {
  StoreCaller to;
  StoreReply reply;
};

/// Takes requests and gives answers, at once or later. Not for two threads at once.
///
///     std::vector<StoreOutput> out;
///     table.handle({.client = 7, .request = 1}, request, now, now + timeout, out);
///     for (const StoreOutput& output : out) send(output.to, output.reply);
class StoreTable {
 public:
  using Time = Deadline::Clock::time_point;
  using Outputs = std::vector<StoreOutput>;

  explicit StoreTable(StoreLimits limits = {})
      : limits_(limits), map_(limits.total_bytes) {}

  /// Does what is asked, and appends what that means for anybody. A wait is forgotten
  /// without an answer after `until`: its client has a clock too. Unwatch and Cancel
  /// are never answered, but Cancel lets a wait that is still there be answered as
  /// Missing.
  void handle(
      StoreCaller caller,
      const StoreRequest& request,
      Time now,
      Time until,
      Outputs& out);
  /// A client has gone.
  void forget(std::uint64_t client);

  const StoreMap& map() const { return map_; }
  std::size_t waits() const { return waits_.size(); }
  std::size_t watches() const { return watches_.size(); }
  /// What counts against StoreLimits::waiting_bytes.
  std::size_t waiting_bytes() const { return waiting_bytes_; }

 private:
  struct Wait {
    std::vector<std::string> keys;
    /// The one that is looked out for; it is absent as long as this waits.
    std::size_t at = 0;
    bool gives_value = false;
    Time until;
    std::size_t bytes = 0;
  };
  using Waits = std::map<StoreCaller, Wait>;

  StoreReply answer_now(const StoreRequest& request, Outputs& later);
  StoreReply compare_set(const StoreRequest& request, Outputs& later);
  void put(const std::string& key, StoreValue value, Outputs& later);
  void tell_watchers(const std::string& key, const StoreValue& value, Outputs& later);
  void begin_wait(StoreCaller caller, Wait wait, Outputs& out);
  void begin_watch(StoreCaller caller, const std::string& prefix, Outputs& out);
  bool complete(Wait& wait) const;
  StoreReply answer_of(const Wait& wait) const;
  void wake(const std::string& key, Outputs& later);
  void cancel(StoreCaller caller, Outputs& out);
  void forget_expired(Time now);
  Waits::iterator remove(Waits::iterator wait);
  void remove_watch(StoreCaller caller);
  void reserve(StoreCaller caller, std::size_t bytes);

  StoreLimits limits_;
  StoreMap map_;
  Waits waits_;
  std::map<std::string, std::set<StoreCaller>, std::less<>> waits_by_key_;
  std::set<std::pair<Time, StoreCaller>> waits_by_time_;
  std::map<StoreCaller, std::string> watches_;
  std::map<std::string, std::set<StoreCaller>> watches_by_prefix_;
  std::size_t waiting_bytes_ = 0;
};

/// How many bytes of keys come in one answer.
inline constexpr std::size_t kStorePageBytes = std::size_t{256} << 10;

}  // namespace trireme::net
