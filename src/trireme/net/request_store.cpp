#include "trireme/net/request_store.h"

#include "trireme/core/error.h"

namespace trireme::net {

void RequestStore::set(std::string_view key, std::string_view value) {
  check_store_key(key);
  check_store_value(value);
  ask({.op = StoreOp::Set, .key = std::string(key), .value = store_value(value)},
      own_deadline(),
      StoreAnswer::Done);
}

std::string RequestStore::get(std::string_view key, Deadline deadline) {
  check_store_key(key);
  const StoreReply reply =
      ask({.op = StoreOp::Get, .key = std::string(key)}, deadline, StoreAnswer::Value);
  if (reply.kind == StoreAnswer::Missing)
    throw_missing_keys(1, {std::string(key)}, deadline);
  TRIREME_ASSERT(reply.value != nullptr);
  return *reply.value;
}

std::optional<std::string> RequestStore::try_get(std::string_view key) {
  check_store_key(key);
  const StoreReply reply =
      ask({.op = StoreOp::TryGet, .key = std::string(key)},
          own_deadline(),
          StoreAnswer::Value);
  return reply.value ? std::optional(*reply.value) : std::nullopt;
}

std::int64_t RequestStore::add(std::string_view key, std::int64_t delta) {
  check_store_key(key);
  return ask({.op = StoreOp::Add, .key = std::string(key), .delta = delta},
             own_deadline(),
             StoreAnswer::Number)
      .number;
}

StoreSwap RequestStore::compare_set(
    std::string_view key,
    std::optional<std::string_view> expected,
    std::string_view desired) {
  check_store_key(key);
  check_store_value(desired);
  if (expected)
    check_store_value(*expected);
  const StoreReply reply =
      ask({.op = StoreOp::CompareSet,
           .key = std::string(key),
           .value = store_value(desired),
           .expected = expected ? store_value(*expected) : nullptr},
          own_deadline(),
          StoreAnswer::Value);
  return {reply.yes, reply.value ? std::optional(*reply.value) : std::nullopt};
}

void RequestStore::wait(const std::vector<std::string>& keys, Deadline deadline) {
  check_store_keys(keys);
  const StoreReply reply =
      ask({.op = StoreOp::Wait, .keys = keys}, deadline, StoreAnswer::Done);
  if (reply.kind == StoreAnswer::Missing)
    throw_missing_keys(keys.size(), reply.names, deadline);
}

bool RequestStore::erase(std::string_view key) {
  check_store_key(key);
  return ask({.op = StoreOp::Erase, .key = std::string(key)},
             own_deadline(),
             StoreAnswer::Erased)
      .yes;
}

std::vector<std::string> RequestStore::keys(std::string_view prefix) {
  check_store_prefix(prefix);
  const Deadline deadline = own_deadline();
  std::vector<std::string> found;
  StoreRequest request{.op = StoreOp::Keys, .key = std::string(prefix)};
  for (bool more = true; more;) {
    StoreReply reply = ask(request, deadline, StoreAnswer::Names);
    more = reply.yes && !reply.names.empty();
    std::move(reply.names.begin(), reply.names.end(), std::back_inserter(found));
    if (more)
      request.keys = {found.back()};
  }
  return found;
}

StoreReply RequestStore::ask(
    StoreRequest request, Deadline deadline, StoreAnswer expected) {
  const bool waits = request.op == StoreOp::Get || request.op == StoreOp::Wait;
  StoreReply reply = call(std::move(request), deadline);
  throw_if_refused(reply);
  TRIREME_ASSERT(
      reply.kind == expected || (waits && reply.kind == StoreAnswer::Missing));
  return reply;
}

void throw_if_refused(const StoreReply& reply) {
  if (reply.kind == StoreAnswer::Refused)
    throw InvalidArgument(reply.text);
}

StoreChange store_change(const StoreReply& reply) {
  switch (reply.kind) {
    case StoreAnswer::Changed:
      return {StoreChange::Kind::Set, reply.text, *reply.value};
    case StoreAnswer::Erased:
      return {StoreChange::Kind::Erased, reply.text, ""};
    default:
      return {.kind = StoreChange::Kind::Lost};
  }
}

}  // namespace trireme::net
