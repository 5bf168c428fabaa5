// The entries of a store, within their limits.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/net/store.h"
#include "trireme/net/store_request.h"

namespace trireme::net {

/// A map that counts its bytes and refuses what is too much, with InvalidArgument and
/// the limit. What a change would come to is asked before it is made, because the file
/// store writes it down in between. Not for two threads at once.
class StoreMap {
 public:
  explicit StoreMap(std::size_t most_bytes = StoreLimits().total_bytes)
      : most_bytes_(most_bytes) {}

  /// The value, or null.
  StoreValue find(std::string_view key) const;
  /// What add() makes of the value that is there.
  StoreValue sum(std::string_view key, std::int64_t delta) const;
  /// Whether the key is `expected`; null stands for absent.
  bool matches(std::string_view key, const StoreValue& expected) const;
  /// Throws what set() would.
  void check_set(std::string_view key, std::string_view value) const;
  void set(std::string_view key, StoreValue value);
  /// set() for what somebody has checked before, perhaps with other limits.
  void put(std::string_view key, StoreValue value);
  bool erase(std::string_view key);

  /// Keys that begin so and come after `after` where it is given, at least one and else
  /// up to `most_bytes` of them; `more` tells whether there are others.
  struct Page {
    std::vector<std::string> keys;
    bool more = false;
  };
  Page keys(
      std::string_view prefix, const std::string* after, std::size_t most_bytes) const;

  std::size_t size() const { return entries_.size(); }
  /// Keys and values with kStoreEntryBytes for each.
  std::size_t bytes() const { return bytes_; }
  const std::map<std::string, StoreValue, std::less<>>& entries() const {
    return entries_;
  }

 private:
  std::size_t bytes_with(std::string_view key, std::string_view value) const;

  std::size_t most_bytes_;
  std::map<std::string, StoreValue, std::less<>> entries_;
  std::size_t bytes_ = 0;
};

/// The whole number in a value; InvalidArgument if it is none.
std::int64_t store_number(std::string_view key, std::string_view value);

}  // namespace trireme::net
