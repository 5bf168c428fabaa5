#include "trireme/net/store_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/parse_number.h"

namespace trireme::net {
namespace {

using Outputs = StoreTable::Outputs;
constexpr StoreTable::Time kStart{};
constexpr StoreTable::Time kLater = kStart + std::chrono::hours(1);

Outputs ask(StoreTable& table, StoreCaller caller, const StoreRequest& request) {
  Outputs out;
  table.handle(caller, request, kStart, kLater, out);
  return out;
}

StoreRequest set_request(std::string key, std::string value) {
  return {
      .op = StoreOp::Set,
      .key = std::move(key),
      .value = store_value(std::move(value))};
}

TEST(StoreTable, AnswersTheCallerFirst) {
  StoreTable table;
  EXPECT_TRUE(ask(table, {1, 1}, {.op = StoreOp::Get, .key = "a"}).empty());
  ask(table, {2, 7}, {.op = StoreOp::Watch, .key = ""});
  const Outputs out = ask(table, {3, 1}, set_request("a", "v"));
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].to, (StoreCaller{3, 1}));
  EXPECT_EQ(out[0].reply.kind, StoreAnswer::Done);
  EXPECT_EQ(out[1].to, (StoreCaller{1, 1}));
  EXPECT_EQ(*out[1].reply.value, "v");
  EXPECT_EQ(out[2].to, (StoreCaller{2, 7}));
  EXPECT_EQ(out[2].reply.kind, StoreAnswer::Changed);
  EXPECT_EQ(out[2].reply.text, "a");
  // One value in the table and in both messages.
  EXPECT_EQ(out[1].reply.value, out[2].reply.value);
  EXPECT_EQ(table.waits(), 0u);
  EXPECT_EQ(table.watches(), 1u);
}

TEST(StoreTable, AWaitMovesFromKeyToKey) {
  StoreTable table;
  ask(table, {1, 1}, {.op = StoreOp::Wait, .keys = {"a", "b", "c"}});
  EXPECT_EQ(ask(table, {2, 1}, set_request("b", "")).size(), 1u);
  EXPECT_EQ(ask(table, {2, 2}, set_request("a", "")).size(), 1u);
  // What it has passed is gone again when the last one comes.
  ask(table, {2, 3}, {.op = StoreOp::Erase, .key = "a"});
  EXPECT_EQ(ask(table, {2, 4}, set_request("c", "")).size(), 1u);
  const Outputs out = ask(table, {2, 5}, set_request("a", ""));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].to, (StoreCaller{1, 1}));
  EXPECT_EQ(table.waiting_bytes(), 0u);
}

TEST(StoreTable, ACancelledWaitNamesWhatIsMissing) {
  StoreTable table;
  ask(table, {1, 1}, {.op = StoreOp::Wait, .keys = {"a", "b"}});
  // Nobody takes back the waits of others.
  EXPECT_TRUE(ask(table, {2, 2}, {.op = StoreOp::Cancel, .target = 1}).empty());
  ask(table, {2, 3}, set_request("a", ""));
  const Outputs out = ask(table, {1, 2}, {.op = StoreOp::Cancel, .target = 1});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, (StoreCaller{1, 1}));
  EXPECT_EQ(out[0].reply.kind, StoreAnswer::Missing);
  EXPECT_EQ(out[0].reply.names, (std::vector<std::string>{"b"}));
  EXPECT_TRUE(ask(table, {1, 3}, {.op = StoreOp::Cancel, .target = 1}).empty());
  EXPECT_EQ(table.waiting_bytes(), 0u);
}

TEST(StoreTable, ForgetsWaitsWhoseTimeIsOver) {
  StoreTable table;
  Outputs out;
  const auto get = [&](std::uint64_t id, int seconds) {
    const StoreRequest request{.op = StoreOp::Get, .key = "a"};
    table.handle({1, id}, request, kStart, kStart + std::chrono::seconds(seconds), out);
  };
  get(1, 10);
  get(2, 5);
  get(3, 20);
  EXPECT_EQ(table.waits(), 3u);
  table.handle(
      {2, 1}, set_request("a", ""), kStart + std::chrono::seconds(10), kLater, out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].to, (StoreCaller{1, 3}));
  EXPECT_EQ(table.waits(), 0u);
}

TEST(StoreTable, ForgetsAClientThatHasGone) {
  StoreTable table;
  for (std::uint64_t client = 1; client <= 3; ++client) {
    ask(table, {client, 1}, {.op = StoreOp::Get, .key = "a"});
    ask(table, {client, 2}, {.op = StoreOp::Wait, .keys = {"b", "c"}});
    ask(table, {client, 3}, {.op = StoreOp::Watch, .key = "a"});
    ask(table, {client, 4}, {.op = StoreOp::Watch, .key = "b"});
  }
  table.forget(2);
  EXPECT_EQ(table.waits(), 4u);
  EXPECT_EQ(table.watches(), 4u);
  for (const StoreOutput& output : ask(table, {9, 1}, set_request("a", "")))
    EXPECT_NE(output.to.client, 2u);
  table.forget(1);
  table.forget(3);
  EXPECT_EQ(table.waiting_bytes(), 0u);
}

TEST(StoreTable, BoundsWhatWaits) {
  StoreTable table({.waiting_bytes = 1000});
  int taken = 0;
  Outputs out;
  while (out.empty() && taken < 100)
    out =
        ask(table, {1, static_cast<std::uint64_t>(++taken)}, {StoreOp::Get, "absent"});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(
      out[0].reply.text,
      "[net] expected at most 1000 bytes for all that wait for or watch keys of the "
      "store, got 1072; wait for fewer keys at a time");
  EXPECT_EQ(taken, 8);
  // The same number twice would mix two answers up.
  EXPECT_EQ(
      ask(table, {1, 1}, {.op = StoreOp::Watch, .key = ""})[0].reply.kind,
      StoreAnswer::Refused);
}

// -- any requests, against a map and a list of waits that are looked through each time

struct Model {
  struct Wait {
    StoreCaller caller;
    std::vector<std::string> keys;
  };
  std::map<std::string, std::string> map;
  std::vector<Wait> waits;
  std::map<StoreCaller, std::string> watches;

  bool has_all(const std::vector<std::string>& keys) const {
    return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
      return map.count(key) > 0;
    });
  }
  /// Who is answered now that something has changed.
  std::vector<StoreCaller> woken() {
    std::vector<StoreCaller> callers;
    std::erase_if(waits, [&](const Wait& wait) {
      if (has_all(wait.keys))
        callers.push_back(wait.caller);
      return has_all(wait.keys);
    });
    return callers;
  }
  std::vector<StoreCaller> watchers(const std::string& key) const {
    std::vector<StoreCaller> callers;
    for (const auto& [caller, prefix] : watches)
      if (key.starts_with(prefix))
        callers.push_back(caller);
    return callers;
  }
};

class RandomRequests {
 public:
  explicit RandomRequests(unsigned seed) : random_(seed) {}

  void step() {
    ++request_;
    const StoreCaller caller{pick(4), request_};
    const StoreRequest request = make();
    const Outputs out = ask(table_, caller, request);
    std::vector<StoreCaller> expected;
    if (const auto answer = apply(caller, request)) {
      ASSERT_FALSE(out.empty());
      EXPECT_EQ(out[0].to, caller);
      check(out[0].reply, *answer);
      expected.push_back(caller);
    }
    const auto add = [&expected](const std::vector<StoreCaller>& more) {
      expected.insert(expected.end(), more.begin(), more.end());
    };
    add(cancelled_);
    cancelled_.clear();
    add(model_.woken());
    if (changed_)
      add(model_.watchers(*changed_));
    changed_.reset();
    std::vector<StoreCaller> found;
    for (const StoreOutput& output : out)
      found.push_back(output.to);
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected);
    EXPECT_EQ(table_.waits(), model_.waits.size());
    EXPECT_EQ(table_.watches(), model_.watches.size());
    EXPECT_EQ(table_.map().size(), model_.map.size());
  }

 private:
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }
  std::string key() { return std::string(1, static_cast<char>('a' + pick(5))); }

  StoreRequest make() {
    StoreRequest request{.op = static_cast<StoreOp>(1 + pick(11)), .key = key()};
    request.value = store_value(pick(3) == 0 ? "x" : std::to_string(pick(3)));
    if (pick(2) == 0)
      request.expected = store_value(std::to_string(pick(3)));
    request.delta = 1;
    if (request.op == StoreOp::Wait)
      for (std::uint64_t i = pick(4); i > 0; --i)
        request.keys.push_back(key());
    request.target = request_ < 20 ? pick(request_ + 1) : request_ - pick(20);
    return request;
  }

  void put(const std::string& key, const std::string& value) {
    model_.map[key] = value;
    changed_ = key;
  }

  StoreReply value_of(const std::string& key, bool yes) const {
    const auto found = model_.map.find(key);
    return {
        .kind = StoreAnswer::Value,
        .yes = yes,
        .value = found == model_.map.end() ? nullptr : store_value(found->second)};
  }

  /// What the caller is answered now, if it is.
  std::optional<StoreReply> apply(StoreCaller caller, const StoreRequest& request) {
    const auto found = model_.map.find(request.key);
    const bool there = found != model_.map.end();
    switch (request.op) {
      case StoreOp::Set:
        put(request.key, *request.value);
        return StoreReply{};
      case StoreOp::Get:
        if (there)
          return value_of(request.key, false);
        model_.waits.push_back({caller, {request.key}});
        return std::nullopt;
      case StoreOp::TryGet:
        return value_of(request.key, false);
      case StoreOp::Add: {
        const auto number =
            parse_number<std::int64_t>(there ? found->second : std::string("0"));
        if (!number)
          return StoreReply{.kind = StoreAnswer::Refused};
        put(request.key, std::to_string(*number + 1));
        return StoreReply{.kind = StoreAnswer::Number, .number = *number + 1};
      }
      case StoreOp::CompareSet: {
        const bool swap =
            request.expected ? there && found->second == *request.expected : !there;
        if (swap)
          put(request.key, *request.value);
        return value_of(request.key, swap);
      }
      case StoreOp::Wait:
        if (model_.has_all(request.keys))
          return StoreReply{};
        model_.waits.push_back({caller, request.keys});
        return std::nullopt;
      case StoreOp::Erase:
        if (there) {
          model_.map.erase(found);
          changed_ = request.key;
        }
        return StoreReply{.kind = StoreAnswer::Erased, .yes = there};
      case StoreOp::Keys:
        return StoreReply{
            .kind = StoreAnswer::Names,
            .names = there ? std::vector{request.key} : std::vector<std::string>{}};
      case StoreOp::Watch:
        model_.watches[caller] = request.key;
        return StoreReply{};
      case StoreOp::Unwatch:
        model_.watches.erase({caller.client, request.target});
        return std::nullopt;
      case StoreOp::Cancel:
        std::erase_if(model_.waits, [&](const Model::Wait& wait) {
          const bool same = wait.caller == StoreCaller{caller.client, request.target};
          if (same)
            cancelled_.push_back(wait.caller);
          return same;
        });
        return std::nullopt;
    }
    return std::nullopt;
  }

  static void check(const StoreReply& reply, const StoreReply& expected) {
    EXPECT_EQ(reply.kind, expected.kind);
    EXPECT_EQ(reply.yes, expected.yes);
    EXPECT_EQ(reply.number, expected.number);
    EXPECT_EQ(reply.names, expected.names);
    ASSERT_EQ(reply.value == nullptr, expected.value == nullptr);
    if (reply.value) {
      EXPECT_EQ(*reply.value, *expected.value);
    }
  }

  std::mt19937_64 random_;
  std::uint64_t request_ = 0;
  StoreTable table_;
  Model model_;
  std::optional<std::string> changed_;
  std::vector<StoreCaller> cancelled_;
};

TEST(StoreTable, DoesWhatAPlainMapWouldDo) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    RandomRequests requests(seed);
    for (int i = 0; i < 400; ++i) {
      requests.step();
      ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << ", step " << i;
    }
  }
}

}  // namespace
}  // namespace trireme::net
