#include "trireme/net/store_map.h"

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"

namespace trireme::net {
namespace {

std::size_t entry_bytes(std::string_view key, std::string_view value) {
  return key.size() + value.size() + kStoreEntryBytes;
}

}  // namespace

StoreValue StoreMap::find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second;
}

StoreValue StoreMap::sum(std::string_view key, std::int64_t delta) const {
  const StoreValue former = find(key);
  const std::int64_t number = former ? store_number(key, *former) : 0;
  std::int64_t result = 0;
  if (__builtin_add_overflow(number, delta, &result))
    throw InvalidArgument(text(
        "[net] expected a sum of 64 bits under the store key ",
        in_quotes(key),
        ", got ",
        number,
        " and ",
        delta,
        "; erase the key to begin again at 0"));
  return store_value(std::to_string(result));
}

bool StoreMap::matches(std::string_view key, const StoreValue& expected) const {
  const StoreValue there = find(key);
  if (there == nullptr || expected == nullptr)
    return there == expected;
  return *there == *expected;
}

void StoreMap::check_set(std::string_view key, std::string_view value) const {
  check_store_key(key);
  check_store_value(value);
  if (bytes_with(key, value) > most_bytes_)
    throw InvalidArgument(text(
        "[net] expected at most ",
        most_bytes_,
        " bytes in the store, got ",
        bytes_with(key, value),
        " with the key ",
        in_quotes(key),
        "; erase keys that nobody needs any more"));
}

void StoreMap::set(std::string_view key, StoreValue value) {
  check_set(key, *value);
  put(key, std::move(value));
}

void StoreMap::put(std::string_view key, StoreValue value) {
  bytes_ = bytes_with(key, *value);
  const auto found = entries_.lower_bound(key);
  if (found != entries_.end() && found->first == key)
    found->second = std::move(value);
  else
    entries_.emplace_hint(found, key, std::move(value));
}

bool StoreMap::erase(std::string_view key) {
  const auto found = entries_.find(key);
  if (found == entries_.end())
    return false;
  bytes_ -= entry_bytes(found->first, *found->second);
  entries_.erase(found);
  return true;
}

StoreMap::Page StoreMap::keys(
    std::string_view prefix, const std::string* after, std::size_t most_bytes) const {
  const bool go_on = after != nullptr && *after >= prefix;
  auto at = go_on ? entries_.upper_bound(*after) : entries_.lower_bound(prefix);
  Page page;
  std::size_t bytes = 0;
  for (; at != entries_.end() && at->first.starts_with(prefix); ++at) {
    bytes += at->first.size() + sizeof(std::uint32_t);  // as they are sent
    page.more = !page.keys.empty() && bytes > most_bytes;
    if (page.more)
      break;
    page.keys.push_back(at->first);
  }
  return page;
}

std::size_t StoreMap::bytes_with(std::string_view key, std::string_view value) const {
  const StoreValue former = find(key);
  return bytes_ + entry_bytes(key, value) - (former ? entry_bytes(key, *former) : 0);
}

std::int64_t store_number(std::string_view key, std::string_view value) {
  const auto number = parse_number<std::int64_t>(value);
  if (!number)
    throw InvalidArgument(text(
        "[net] expected a whole number under the store key ",
        in_quotes(key),
        " to add to, got ",
        in_quotes(value),
        "; use another key for the count"));
  return *number;
}

}  // namespace trireme::net
