#include "trireme/net/store.h"

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/list_names.h"

namespace trireme::net {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix)), store_(std::move(store)) {
  check_store_prefix(prefix_);
  if (store_ == nullptr)
    throw InvalidArgument(
        "[net] expected a store under the prefix, got none; open one first");
}

std::string PrefixStore::full(std::string_view key) const {
  check_store_key(key);
  return prefix_ + std::string(key);
}

void PrefixStore::set(std::string_view key, std::string_view value) {
  store_->set(full(key), value);
}

std::string PrefixStore::get(std::string_view key, Deadline deadline) {
  return store_->get(full(key), deadline);
}

std::optional<std::string> PrefixStore::try_get(std::string_view key) {
  return store_->try_get(full(key));
}

std::int64_t PrefixStore::add(std::string_view key, std::int64_t delta) {
  return store_->add(full(key), delta);
}

StoreSwap PrefixStore::compare_set(
    std::string_view key,
    std::optional<std::string_view> expected,
    std::string_view desired) {
  return store_->compare_set(full(key), expected, desired);
}

void PrefixStore::wait(const std::vector<std::string>& keys, Deadline deadline) {
  std::vector<std::string> all;
  for (const std::string& key : keys)
    all.push_back(full(key));
  store_->wait(all, deadline);
}

bool PrefixStore::erase(std::string_view key) {
  return store_->erase(full(key));
}

std::vector<std::string> PrefixStore::keys(std::string_view prefix) {
  std::vector<std::string> found = store_->keys(prefix_ + std::string(prefix));
  for (std::string& key : found)
    key.erase(0, prefix_.size());
  return found;
}

StoreWatch PrefixStore::watch(std::string_view prefix, Callback callback) {
  return store_->watch(
      prefix_ + std::string(prefix),
      [size = prefix_.size(),
       callback = std::move(callback)](const StoreChange& change) {
        StoreChange shorter = change;
        if (change.kind != StoreChange::Kind::Lost)
          shorter.key.erase(0, size);
        callback(shorter);
      });
}

void check_store_key(std::string_view key) {
  if (key.empty() || key.size() > kStoreKeyBytes)
    throw InvalidArgument(text(
        "[net] expected a store key of 1 to ",
        kStoreKeyBytes,
        " bytes, got ",
        key.size(),
        "; choose another key"));
}

void check_store_prefix(std::string_view prefix) {
  if (prefix.size() > kStoreKeyBytes)
    throw InvalidArgument(text(
        "[net] expected a store prefix of at most ",
        kStoreKeyBytes,
        " bytes, got ",
        prefix.size(),
        "; no key is as long, so choose a shorter one"));
}

void check_store_value(std::string_view value) {
  if (value.size() > kStoreValueBytes)
    throw InvalidArgument(text(
        "[net] expected a store value of at most ",
        kStoreValueBytes,
        " bytes, got ",
        value.size(),
        "; the store is for addresses and counters, so send large data another way"));
}

void check_store_keys(const std::vector<std::string>& keys) {
  std::size_t bytes = 0;
  for (const std::string& key : keys) {
    check_store_key(key);
    bytes += key.size() + sizeof(std::uint32_t);
  }
  if (bytes > kStoreWaitBytes)
    throw InvalidArgument(text(
        "[net] expected at most ",
        kStoreWaitBytes,
        " bytes of keys to wait for, got ",
        bytes,
        "; wait for some of the ",
        keys.size(),
        " keys first, and then for the others"));
}

void throw_missing_keys(
    std::size_t keys, const std::vector<std::string>& missing, Deadline deadline) {
  std::vector<std::string> quoted;
  for (const std::string& key : missing)
    quoted.push_back(in_quotes(key));
  throw TimeoutError(text(
      "[net] expected ",
      keys == 1 ? "the key" : text("all of ", keys, " keys"),
      " in the store within ",
      deadline.allowed().count(),
      " ms, got everything but ",
      list_names(quoted),
      "; check that whoever sets ",
      missing.size() == 1 ? "it" : "them",
      " has started and still runs"));
}

}  // namespace trireme::net
