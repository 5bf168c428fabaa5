#include <atomic>
#include <stdexcept>

#include "worlds.h"

namespace trireme::rpc {
namespace {

// What is sent as one version, and read as another.
struct OldCoin {
  int value = 0;
};
struct NewCoin {
  int value = 0;
  int year = 0;
};
struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace

template <>
struct Fields<OldCoin> {
  static constexpr auto name = "Coin";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&OldCoin::value);
};
template <>
struct Fields<NewCoin> {
  static constexpr auto name = "Coin";
  static constexpr int version = 2;
  static constexpr auto members = std::tuple(&NewCoin::value, &NewCoin::year);
  static void check(const NewCoin& coin) {
    if (coin.year < 0)
      throw InvalidArgument(text(
          "[test] expected a year from 0 on, got ", coin.year, "; look at the coin"));
  }
};

namespace {

class Refusals : public ::testing::Test {
 protected:
  // Runs `body`, and expects that no function has run, and that all still serve.
  void lead(const std::function<void(Agent&)>& body) {
    FunctionTable functions;
    functions.add("touch", [this](int value) {
      ++runs_;
      return value;
    });
    functions.add("worth", [this](const NewCoin& coin) {
      ++runs_;
      return coin.value;
    });
    functions.add("alive", [] {});
    functions.add("guarded", [this] { ++runs_; }, {.roles = {"trainer", "judge"}});
    lead_world(2, {.functions = functions}, [&](Agent& agent) {
      body(agent);
      EXPECT_EQ(runs_.load(), 0);
      for (WorkerId worker = 0; worker < 2; ++worker)
        agent.to(worker).call<void>("alive");
    });
  }
  // What a call of either worker is refused with.
  template <class Call>
  void expect_refused(Agent& agent, const Call& call, const std::string& words) {
    for (WorkerId worker = 0; worker < 2; ++worker) {
      const std::string message =
          message_of<InvalidArgument>([&] { call(agent.to(worker)); });
      EXPECT_TRUE(contains(message, words));
      EXPECT_TRUE(contains(message, "worker" + std::to_string(worker)));
    }
  }

 private:
  std::atomic<int> runs_{0};
};

using CallEndRanks = Refusals;

TEST_F(CallEndRanks, UnknownFunctions) {
  lead([&](Agent& agent) {
    expect_refused(
        agent,
        [](const Caller& there) { there.call<int>("tuch", 1); },
        "to name a function of its table, got one that it does not have; did you mean "
        "touch");
    expect_refused(
        agent, [](const Caller& there) { there.call<int>("", 1); }, "[rpc]");
    expect_refused(
        agent,
        [](const Caller& there) { there.call<int>("trireme.none", 1); },
        "[rpc]");
  });
}

// Both signatures stand in the error.
TEST_F(CallEndRanks, WrongNumberOfArguments) {
  lead([&](Agent& agent) {
    expect_refused(
        agent,
        [](const Caller& there) { there.call<int>("touch"); },
        "as (int) -> int, which is its signature there, got () -> int");
    expect_refused(
        agent,
        [](const Caller& there) { there.call<int>("touch", 1, 2); },
        "as (int) -> int, which is its signature there, got (int, int) -> int");
  });
}

TEST_F(CallEndRanks, WrongTypes) {
  lead([&](Agent& agent) {
    expect_refused(
        agent,
        [](const Caller& there) { there.call<int>("touch", "one"); },
        "as (int) -> int, which is its signature there, got (string) -> int");
    expect_refused(
        agent,
        [](const Caller& there) { there.call<int>("touch", at::ones({1})); },
        "got (tensor) -> int");
    expect_refused(
        agent,
        [](const Caller& there) { there.call<std::string>("touch", 1); },
        "got (int) -> string");
    expect_refused(
        agent,
        [](const Caller& there) { there.call<void>("touch", 1); },
        "got (int) -> nothing");
  });
}

TEST_F(CallEndRanks, AStructOfAnotherVersion) {
  lead([&](Agent& agent) {
    expect_refused(
        agent,
        [](const Caller& there) { there.call<int>("worth", OldCoin{.value = 3}); },
        "as (Coin v2) -> int, which is its signature there, got (Coin v1) -> int");
  });
}

// The function has not run, but the worker could only tell after it had begun to read.
TEST_F(CallEndRanks, AStructThatMustNotBe) {
  lead([&](Agent& agent) {
    for (WorkerId worker = 0; worker < 2; ++worker)
      EXPECT_TRUE(contains(
          message_of<RemoteError>([&] {
            agent.to(worker).call<int>("worth", NewCoin{.value = 1, .year = -5});
          }),
          "expected a year from 0 on, got -5"));
  });
}

TEST_F(CallEndRanks, RolesThatMayNot) {
  lead([&](Agent& agent) {
    expect_refused(
        agent,
        [](const Caller& there) { there.call<void>("guarded"); },
        "from a worker with role trainer, judge, got one from role default");
  });
}

TEST(CallEndRoleRanks, ThoseOnTheListMay) {
  FunctionTable functions;
  functions.add("guarded", [] { return 1; }, {.roles = {"trainer", "judge"}});
  const char* roles[] = {"server", "trainer", "judge"};
  run_rpc(
      RpcKind::Threads,
      3,
      {.functions = functions,
       .edit = [&](AgentOptions& options) { options.role = roles[*options.rank]; }},
      [&](Agent& agent) {
        EXPECT_EQ(agent.me().role, roles[agent.me().id]);
        for (WorkerId worker = 0; worker < 3; ++worker)
          if (agent.me().id == 0) {
            EXPECT_TRUE(contains(
                message_of<InvalidArgument>(
                    [&] { agent.to(worker).call<int>("guarded"); }),
                "got one from role server"));
          } else {
            EXPECT_EQ(agent.to(worker).call<int>("guarded"), 1);
          }
      });
}

class ThrownRanks : public ::testing::TestWithParam<RpcKind> {};

TEST_P(ThrownRanks, WithTypeTextAndWorker) {
  FunctionTable functions;
  functions.add("own", [] { throw OwnError("mine"); });
  functions.add("number", []() -> int { throw 42; });
  functions.add("words", []() -> int { throw "words"; });
  functions.add("long", [] { throw std::runtime_error(std::string(1 << 20, 'x')); });
  functions.add("zero", [] { throw std::runtime_error(std::string("a\0b\n\xff", 5)); });
  functions.add("outer", [](int next) { this_agent().to(next).call<void>("own"); });
  functions.add("alive", [] {});
  run_rpc(GetParam(), 2, {.functions = functions}, [](Agent& agent) {
    const auto thrown = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const RemoteError& error) {
        return error;
      }
      ADD_FAILURE() << "it should throw";
      throw Error("[test] nothing was thrown");
    };
    for (const WorkerInfo& worker : agent.workers()) {
      const Caller there = agent.to(worker);
      const RemoteError own = thrown([&] { there.call<void>("own"); });
      EXPECT_TRUE(contains(own.type(), "OwnError"));
      EXPECT_EQ(own.text(), "mine");
      EXPECT_EQ(own.worker(), worker.name);
      EXPECT_EQ(thrown([&] { there.call<int>("number"); }).type(), "int");
      EXPECT_EQ(thrown([&] { there.call<int>("words"); }).type(), "char const*");
      EXPECT_TRUE(contains(
          thrown([&] { there.call<void>("long"); }).text(), std::string(1000, 'x')));
      EXPECT_TRUE(contains(thrown([&] { there.call<void>("zero"); }).text(), "a"));
      // Through a call inside of a call the innermost is named.
      const int next = 1 - worker.id;
      const RemoteError outer = thrown([&] { there.call<void>("outer", next); });
      EXPECT_EQ(outer.worker(), worker.name);
      EXPECT_TRUE(contains(outer.type(), "OwnError"));
      EXPECT_EQ(outer.text(), "(on worker worker" + std::to_string(next) + ") mine");
      there.call<void>("alive");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Threads, ThrownRanks, ::testing::Values(RpcKind::Threads), [](const auto& kind) {
      return to_string(kind.param);
    });
// Apart, since who forks must not have used libtorch's threads.
INSTANTIATE_TEST_SUITE_P(
    Processes,
    ThrownRanks,
    ::testing::Values(RpcKind::Processes),
    [](const auto& kind) { return to_string(kind.param); });

}  // namespace
}  // namespace trireme::rpc
