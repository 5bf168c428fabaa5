#include "trireme/net/store_table.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::net {

void StoreTable::handle(
    StoreCaller caller,
    const StoreRequest& request,
    Time now,
    Time until,
    Outputs& out) {
  forget_expired(now);
  try {
    switch (request.op) {
      case StoreOp::Get:
        check_store_key(request.key);
        return begin_wait(
            caller, {.keys = {request.key}, .gives_value = true, .until = until}, out);
      case StoreOp::Wait:
        check_store_keys(request.keys);
        return begin_wait(caller, {.keys = request.keys, .until = until}, out);
      case StoreOp::Watch:
        check_store_prefix(request.key);
        return begin_watch(caller, request.key, out);
      case StoreOp::Unwatch:
        return remove_watch({caller.client, request.target});
      case StoreOp::Cancel:
        return cancel({caller.client, request.target}, out);
      default:
        break;
    }
    // The caller's own answer first: what it sets off may be for many.
    Outputs later;
    out.push_back({caller, answer_now(request, later)});
    std::move(later.begin(), later.end(), std::back_inserter(out));
  } catch (const InvalidArgument& error) {
    out.push_back({caller, {.kind = StoreAnswer::Refused, .text = error.what()}});
  }
}

StoreReply StoreTable::answer_now(const StoreRequest& request, Outputs& later) {
  const std::string& key = request.key;
  switch (request.op) {
    case StoreOp::Set:
      put(key, request.value, later);
      return {};
    case StoreOp::TryGet:
      check_store_key(key);
      return {.kind = StoreAnswer::Value, .value = map_.find(key)};
    case StoreOp::Add: {
      StoreValue sum = map_.sum(key, request.delta);
      put(key, sum, later);
      return {.kind = StoreAnswer::Number, .number = store_number(key, *sum)};
    }
    case StoreOp::CompareSet:
      return compare_set(request, later);
    case StoreOp::Erase: {
      check_store_key(key);
      const bool erased = map_.erase(key);
      if (erased)
        tell_watchers(key, nullptr, later);
      return {.kind = StoreAnswer::Erased, .yes = erased};
    }
    case StoreOp::Keys: {
      check_store_prefix(key);
      auto page = map_.keys(
          key, request.keys.empty() ? nullptr : &request.keys.front(), kStorePageBytes);
      return {
          .kind = StoreAnswer::Names, .yes = page.more, .names = std::move(page.keys)};
    }
    default:
      break;
  }
  TRIREME_ASSERT(false && "handle() has dealt with the others");
  return {};
}

StoreReply StoreTable::compare_set(const StoreRequest& request, Outputs& later) {
  // Refused even where the swap would not happen, so that whether it is refused does
  // not depend on who was first.
  check_store_key(request.key);
  check_store_value(*request.value);
  const bool swapped = map_.matches(request.key, request.expected);
  if (swapped)
    put(request.key, request.value, later);
  return {.kind = StoreAnswer::Value, .yes = swapped, .value = map_.find(request.key)};
}

void StoreTable::put(const std::string& key, StoreValue value, Outputs& later) {
  const bool appears = map_.find(key) == nullptr;
  map_.set(key, value);
  if (appears)
    wake(key, later);
  tell_watchers(key, value, later);
}

void StoreTable::tell_watchers(
    const std::string& key, const StoreValue& value, Outputs& later) {
  const auto kind = value ? StoreAnswer::Changed : StoreAnswer::Erased;
  for (const auto& [prefix, callers] : watches_by_prefix_)
    if (key.starts_with(prefix))
      for (const StoreCaller& caller : callers)
        later.push_back({caller, {.kind = kind, .value = value, .text = key}});
}

// A wait stands under one key that is absent, never under all: a thousand ranks that
// wait for a thousand keys each would otherwise make a million entries.
void StoreTable::begin_wait(StoreCaller caller, Wait wait, Outputs& out) {
  if (complete(wait)) {
    out.push_back({caller, answer_of(wait)});
    return;
  }
  for (const std::string& key : wait.keys)
    wait.bytes += key.size() + kStoreEntryBytes;
  reserve(caller, wait.bytes);
  waits_by_key_[wait.keys[wait.at]].insert(caller);
  waits_by_time_.insert({wait.until, caller});
  waits_.emplace(caller, std::move(wait));
}

void StoreTable::begin_watch(
    StoreCaller caller, const std::string& prefix, Outputs& out) {
  reserve(caller, prefix.size() + kStoreEntryBytes);
  watches_.emplace(caller, prefix);
  watches_by_prefix_[prefix].insert(caller);
  out.push_back({caller, {}});
}

// Goes on from where it stood, once around; what was there before may be gone again.
bool StoreTable::complete(Wait& wait) const {
  for (std::size_t step = 0; step < wait.keys.size(); ++step) {
    if (map_.find(wait.keys[wait.at]) == nullptr)
      return false;
    wait.at = (wait.at + 1) % wait.keys.size();
  }
  return true;
}

StoreReply StoreTable::answer_of(const Wait& wait) const {
  if (wait.gives_value)
    return {.kind = StoreAnswer::Value, .value = map_.find(wait.keys.front())};
  return {};
}

void StoreTable::wake(const std::string& key, Outputs& later) {
  const auto found = waits_by_key_.find(key);
  if (found == waits_by_key_.end())
    return;
  const auto woken = waits_by_key_.extract(found);
  for (const StoreCaller& caller : woken.mapped()) {
    const auto at = waits_.find(caller);
    Wait& wait = at->second;
    if (complete(wait)) {
      later.push_back({caller, answer_of(wait)});
      remove(at);
    } else {
      waits_by_key_[wait.keys[wait.at]].insert(caller);
    }
  }
}

void StoreTable::cancel(StoreCaller caller, Outputs& out) {
  const auto found = waits_.find(caller);
  if (found == waits_.end())
    return;  // it was answered while this was on its way
  StoreReply reply{.kind = StoreAnswer::Missing};
  for (const std::string& key : found->second.keys)
    if (map_.find(key) == nullptr)
      reply.names.push_back(key);
  remove(found);
  out.push_back({caller, std::move(reply)});
}

void StoreTable::forget(std::uint64_t client) {
  for (auto at = waits_.lower_bound({client, 0});
       at != waits_.end() && at->first.client == client;)
    at = remove(at);
  for (auto at = watches_.lower_bound({client, 0});
       at != watches_.end() && at->first.client == client;
       at = watches_.lower_bound({client, 0}))
    remove_watch(at->first);
}

void StoreTable::forget_expired(Time now) {
  while (!waits_by_time_.empty() && waits_by_time_.begin()->first <= now)
    remove(waits_.find(waits_by_time_.begin()->second));
}

StoreTable::Waits::iterator StoreTable::remove(Waits::iterator wait) {
  const auto& [caller, state] = *wait;
  const auto under = waits_by_key_.find(state.keys[state.at]);
  if (under != waits_by_key_.end()) {
    under->second.erase(caller);
    if (under->second.empty())
      waits_by_key_.erase(under);
  }
  waits_by_time_.erase({state.until, caller});
  waiting_bytes_ -= state.bytes;
  return waits_.erase(wait);
}

void StoreTable::remove_watch(StoreCaller caller) {
  const auto found = watches_.find(caller);
  if (found == watches_.end())
    return;
  const auto under = watches_by_prefix_.find(found->second);
  under->second.erase(caller);
  waiting_bytes_ -= found->second.size() + kStoreEntryBytes;
  if (under->second.empty())
    watches_by_prefix_.erase(under);
  watches_.erase(found);
}

void StoreTable::reserve(StoreCaller caller, std::size_t bytes) {
  if (waits_.count(caller) > 0 || watches_.count(caller) > 0)
    throw InvalidArgument(text(
        "[net] expected a new number for a request to the store, got ",
        caller.request,
        ", which still waits; number requests one after the other"));
  if (waiting_bytes_ + bytes > limits_.waiting_bytes)
    throw InvalidArgument(text(
        "[net] expected at most ",
        limits_.waiting_bytes,
        " bytes for all that wait for or watch keys of the store, got ",
        waiting_bytes_ + bytes,
        "; wait for fewer keys at a time"));
  waiting_bytes_ += bytes;
}

}  // namespace trireme::net
