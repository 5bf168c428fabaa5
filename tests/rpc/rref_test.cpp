#include "trireme/rpc/rref.h"

#include <map>
#include <random>

#include "shelf.h"

namespace trireme::rpc {
namespace {

class RRefRanks : public ::testing::TestWithParam<RpcKind> {
 protected:
  void lead(int workers, const std::function<void(Agent&)>& body) {
    run_rpc(
        GetParam(),
        workers,
        {.functions = tally_functions(std::make_shared<Shelf>())},
        [&](Agent& agent) {
          if (agent.me().id == 0)
            body(agent);
        });
  }
};

TEST_P(RRefRanks, OwnersAndUsers) {
  lead(2, [](Agent& agent) {
    const RRef<Tally> there = agent.to(1).remote<std::unique_ptr<Tally>>("make", 5);
    EXPECT_EQ(there.owner_name(), "worker1");
    EXPECT_FALSE(there.is_owner());
    EXPECT_EQ(there.call(&Tally::value), 5);
    EXPECT_EQ(there.call(&Tally::add, 2), 7);
    EXPECT_EQ(there.async(&Tally::add, 2).get(), 9);
    there.made().get();
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { there.local_value(); }),
        "expected a reference to a value of this worker, got one of worker 1; call its "
        "owner"));
    const RRef<Tally> here = agent.to(0).remote<std::unique_ptr<Tally>>("make", 3);
    EXPECT_TRUE(here.is_owner());
    EXPECT_EQ(here.local_value()->value(), 3);
    EXPECT_EQ(here.call(&Tally::add, 1), 4);
    EXPECT_EQ(here.local_value()->value(), 4);
  });
}

/// Waits for what a future leads to, but not for the future.
struct OtherWaiter {
  int wait() {
    Event done;
    (void)this_agent().to(1).async<int>("one").then([&](int) { done.set(); });
    return done.wait(std::chrono::seconds(5)) ? 1 : 0;
  }
};

TEST(RRefMethodRanks, MayWaitForWhatAFutureDoes) {
  FunctionTable functions;
  functions.add("one", [] { return 1; })
      .add("make_waiter", [] { return std::make_shared<OtherWaiter>(); })
      .method("OtherWaiter.wait", &OtherWaiter::wait);
  lead_world(2, {.functions = functions}, [](Agent& agent) {
    const auto waiter = agent.to(1).remote<std::shared_ptr<OtherWaiter>>("make_waiter");
    waiter.made().get();
    for (int i = 0; i < 200; ++i)
      ASSERT_EQ(waiter.call(&OtherWaiter::wait), 1);
  });
}

TEST_P(RRefRanks, GoToThirdWorkersAndComeHome) {
  lead(4, [](Agent& agent) {
    for (WorkerId owner = 0; owner < 4; ++owner) {
      RRef<Tally> tally = agent.to(owner).remote<std::unique_ptr<Tally>>("make", owner);
      for (WorkerId user = 0; user < 4; ++user) {
        EXPECT_EQ(agent.to(user).call<int>("value_of", tally), owner);
        const auto back = agent.to(user).call<RRef<Tally>>("same", tally);
        EXPECT_EQ(back.reference()->id(), tally.reference()->id());
        EXPECT_EQ(back.is_owner(), owner == 0);
      }
      const std::vector<int> all_round{0, 3, 1, 2, 0, 1, 3, 2, 1};
      tally = agent.to(3).call<RRef<Tally>>("pass", tally, all_round);
      EXPECT_EQ(tally.call(&Tally::value), owner);
    }
  });
}

TEST_P(RRefRanks, StayWhereTheyAreKept) {
  lead(3, [](Agent& agent) {
    agent.to(2).call<void>(
        "put", "a", agent.to(1).remote<std::unique_ptr<Tally>>("make", 11));
    EXPECT_EQ(agent.to(2).call<int>("see", "a"), 11);
    {
      const auto again = agent.to(2).call<RRef<Tally>>("get", "a");
      agent.to(2).call<void>("drop", "a");
      EXPECT_EQ(again.call(&Tally::add, 1), 12);
    }
  });
}

TEST_P(RRefRanks, OfTensorsAndOwnValues) {
  lead(2, [](Agent& agent) {
    const RRef<at::Tensor> own = agent.own(at::arange(6).view({2, 3}));
    EXPECT_TRUE(at::equal(own.to_here(), at::arange(6).view({2, 3})));
    EXPECT_EQ(own.local_value()->data_ptr(), own.to_here().data_ptr());
    EXPECT_TRUE(at::equal(own.to_here_async().get(), *own.local_value()));
    const RRef<Tally> tally = agent.keep(std::make_shared<Tally>(8));
    EXPECT_EQ(agent.to(1).call<int>("value_of", tally), 8);
  });
}

TEST_P(RRefRanks, WhatCannotBeMadeSaysWhy) {
  lead(3, [](Agent& agent) {
    for (WorkerId owner = 0; owner < 2; ++owner) {
      const auto none =
          agent.to(owner).remote<std::unique_ptr<Tally>>("make_none", "no clay");
      const auto expect_why = [&](const std::function<void()>& use) {
        EXPECT_TRUE(contains(message_of<RemoteError>(use), "no clay"));
      };
      expect_why([&] { none.made().get(); });
      expect_why([&] { none.call(&Tally::value); });
      expect_why([&] { agent.to(2).call<int>("value_of", none); });
      const auto unknown = agent.to(owner).remote<std::unique_ptr<Tally>>("mke", 1);
      EXPECT_TRUE(contains(
          message_of<InvalidArgument>([&] { unknown.made().get(); }),
          "did you mean make"));
      EXPECT_TRUE(contains(
          message_of<RemoteError>([&] { unknown.call(&Tally::value); }),
          "look at the error of its caller"));
    }
  });
}

TEST_P(RRefRanks, MethodsThrow) {
  lead(2, [](Agent& agent) {
    for (WorkerId owner = 0; owner < 2; ++owner) {
      const auto tally = agent.to(owner).remote<std::unique_ptr<Tally>>("make", 1);
      try {
        tally.call(&Tally::fail, "too far");
        ADD_FAILURE() << "it should throw";
      } catch (const RemoteError& error) {
        EXPECT_EQ(error.type(), "std::out_of_range");
        EXPECT_EQ(error.text(), "too far");
      }
      EXPECT_EQ(tally.call(&Tally::value), 1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Threads, RRefRanks, ::testing::Values(RpcKind::Threads), [](const auto& kind) {
      return to_string(kind.param);
    });
// Apart, since who forks must not have used libtorch's threads.
INSTANTIATE_TEST_SUITE_P(
    Processes, RRefRanks, ::testing::Values(RpcKind::Processes), [](const auto& kind) {
      return to_string(kind.param);
    });

FunctionTable shelf_functions() {
  return tally_functions(std::make_shared<Shelf>());
}

// The value goes with the last of its references, wherever that is.
TEST(RRefLifeRanks, TheLastReferenceTakesTheValue) {
  lead_world(4, {.functions = shelf_functions()}, [](Agent& agent) {
    EXPECT_EQ(Tally::alive().load(), 0);
    for (WorkerId owner = 0; owner < 4; ++owner) {
      {
        const auto tally = agent.to(owner).remote<std::unique_ptr<Tally>>("make", 1);
        tally.made().get();
        for (WorkerId user = 1; user < 4; ++user)
          agent.to(user).call<void>("put", "x", tally);
      }
      for (WorkerId user = 1; user < 4; ++user) {
        EXPECT_EQ(Tally::alive().load(), 1);
        EXPECT_EQ(agent.to(user).call<int>("see", "x"), 1);
        agent.to(user).call<void>("drop", "x");
      }
      EXPECT_TRUE(soon([] { return Tally::alive().load() == 0; }));
    }
  });
}

// References that go just before the end are no leak.
TEST(RRefLifeRanks, ALateReleaseIsNoLeak) {
  for (int round = 0; round < 20; ++round)
    run_rpc(RpcKind::Threads, 3, {.functions = shelf_functions()}, [](Agent& agent) {
      const auto next = agent.to((agent.me().id + 1) % 3);
      const auto tally = next.remote<std::unique_ptr<Tally>>("make", 1);
      agent.to((agent.me().id + 2) % 3).call<int>("value_of", tally);
    });
  EXPECT_TRUE(soon([] { return Tally::alive().load() == 0; }));
}

// Methods may be called, and their results used, before the value is there.
TEST(RRefLifeRanks, UsesBeforeTheValueIsMade) {
  Event gos[2];
  FunctionTable functions = shelf_functions();
  functions.add("make_slowly", [&gos] {
    EXPECT_TRUE(gos[this_agent().me().id].wait());
    return std::make_unique<Tally>(40);
  });
  functions.add("twice", [](const RRef<int>& number) { return 2 * number.to_here(); });
  lead_world(3, {.functions = functions}, [&](Agent& agent) {
    for (WorkerId owner = 0; owner < 2; ++owner) {
      const auto tally = agent.to(owner).remote<std::unique_ptr<Tally>>("make_slowly");
      const RRef<int> sum = tally.remote(&Tally::add, 2);
      const RRef<int> twice = agent.to(2).remote<int>("twice", sum);
      const Future<int> here = twice.to_here_async();
      EXPECT_FALSE(here.wait_for(milliseconds(20)));
      EXPECT_FALSE(tally.made().ready());
      gos[owner].set();
      EXPECT_EQ(here.get(), 84);
      EXPECT_EQ(tally.call(&Tally::value), 42);
    }
  });
}

// Who does not want to wait for a value that takes long may ask again later.
TEST(RRefLifeRanks, TimeoutsOfUsesAreNotTheEndOfTheValue) {
  Event gos[2];
  FunctionTable functions = shelf_functions();
  functions.add("make_slowly", [&gos] {
    EXPECT_TRUE(gos[this_agent().me().id].wait());
    return std::make_unique<Tally>(40);
  });
  functions.add("seven", [&gos] {
    EXPECT_TRUE(gos[this_agent().me().id].wait());
    return 7;
  });
  const CallOptions hasty{.timeout = milliseconds(30)};
  lead_world(2, {.functions = functions}, [&](Agent& agent) {
    for (WorkerId owner = 0; owner < 2; ++owner) {
      const auto tally = agent.to(owner).remote<std::unique_ptr<Tally>>("make_slowly");
      const auto seven = agent.to(owner).remote<int>("seven");
      const auto expect_late = [](const std::function<void()>& use) {
        EXPECT_TRUE(contains(message_of<TimeoutError>(use), "within 30 ms, got none"));
      };
      expect_late([&] { tally.with(hasty).call(&Tally::value); });
      expect_late([&] { tally.with(hasty).async(&Tally::value).get(); });
      expect_late([&] { tally.with(hasty).remote(&Tally::value).made().get(); });
      expect_late([&] { seven.to_here(hasty); });
      gos[owner].set();
      EXPECT_EQ(tally.call(&Tally::value), 40);
      EXPECT_EQ(seven.to_here(), 7);
    }
  });
}

// Methods that wait for each other, all called before the value was there.
TEST(RRefLifeRanks, MethodsThatWaitedRunSideBySide) {
  struct Pair {
    Event first, second;
    void one() {
      first.set();
      EXPECT_TRUE(second.wait());
    }
    void two() {
      EXPECT_TRUE(first.wait());
      second.set();
    }
  };
  Event go;
  FunctionTable functions;
  functions.add("make_pair", [&go] {
    EXPECT_TRUE(go.wait());
    return std::make_unique<Pair>();
  });
  functions.method("one", &Pair::one);
  functions.method("two", &Pair::two);
  lead_world(2, {.functions = functions}, [&](Agent& agent) {
    const auto pair = agent.to(1).remote<std::unique_ptr<Pair>>("make_pair");
    std::vector<Future<void>> both;
    both.push_back(pair.async(&Pair::one));
    both.push_back(pair.async(&Pair::two));
    std::this_thread::sleep_for(milliseconds(50));
    go.set();
    all(std::move(both)).get(Deadline::after(std::chrono::seconds(10)));
  });
}

// Called before the value is there, more of them than there are threads: they leave
// some to what they call themselves, as they do afterwards.
TEST(RRefLifeRanks, MethodsThatWaitedLeaveThreadsToTheirCalls) {
  struct Asker {
    int ask(int number) {
      return this_agent().to(1 - this_agent().me().id).call<int>("same", number);
    }
  };
  Event go;
  FunctionTable functions;
  functions.add("make_asker", [&go] {
    EXPECT_TRUE(go.wait());
    return std::make_unique<Asker>();
  });
  functions.add("same", [](int number) {
    return this_agent().to(1 - this_agent().me().id).call<int>("same_here", number);
  });
  functions.add("same_here", [](int number) { return number; });
  functions.method("ask", &Asker::ask);
  const auto few_threads = [](AgentOptions& options) {
    options.pool.threads = 2;
    options.pool.most = 8;
  };
  lead_world(2, {.functions = functions, .edit = few_threads}, [&](Agent& agent) {
    const auto asker = agent.to(1).remote<std::unique_ptr<Asker>>("make_asker");
    std::vector<Future<int>> before;
    for (int i = 0; i < 200; ++i)
      before.push_back(asker.async(&Asker::ask, i));
    std::this_thread::sleep_for(milliseconds(50));
    go.set();
    for (int i = 0; i < 200; ++i)
      EXPECT_EQ(before[static_cast<std::size_t>(i)].get(), i);
    EXPECT_EQ(asker.call(&Asker::ask, 7), 7);
  });
}

// Whoever has called may let go of the object meanwhile.
TEST(RRefLifeRanks, AnObjectStaysUntilItsMethodHasEnded) {
  struct Slow {
    Slow(Promise<int>& given, Event& its_begun, std::atomic<bool>& its_end)
        : promise(given), begun(its_begun), gone(its_end) {}
    ~Slow() { gone = true; }
    Future<int> later() {
      begun.set();
      return promise.future().then([this](int more) { return base + more; });
    }
    Promise<int>& promise;
    Event& begun;
    std::atomic<bool>& gone;
    int base = 40;
  };
  for (WorkerId owner = 0; owner < 2; ++owner) {
    Promise<int> promise;
    Event begun;
    std::atomic<bool> gone{false};
    FunctionTable functions;
    functions.add(
        "make_slow", [&] { return std::make_unique<Slow>(promise, begun, gone); });
    functions.method("later", &Slow::later);
    lead_world(2, {.functions = functions}, [&](Agent& agent) {
      auto slow = agent.to(owner).remote<std::unique_ptr<Slow>>("make_slow");
      const Future<int> later = slow.async(&Slow::later);
      EXPECT_TRUE(begun.wait());
      slow = {};
      EXPECT_FALSE(soon([&] { return gone.load(); }, milliseconds(200)));
      promise.set_value(2);
      EXPECT_EQ(later.get(), 42);
      EXPECT_TRUE(soon([&] { return gone.load(); }));
    });
  }
}

TEST(RRefLifeRanks, InListsStructsAndResults) {
  FunctionTable functions = shelf_functions();
  functions.add("sum", [](const std::vector<RRef<int>>& numbers) {
    int sum = 0;
    for (const RRef<int>& number : numbers)
      sum += number ? number.to_here() : 0;
    return sum;
  });
  functions.add("number", [](int number) { return number; });
  functions.add("keep_all", [](int many) {
    std::map<std::string, RRef<int>> made;
    for (int i = 0; i < many; ++i)
      made["n" + std::to_string(i)] = this_agent().to(i % 3).remote<int>("number", i);
    return made;
  });
  lead_world(3, {.functions = functions}, [](Agent& agent) {
    const auto made =
        agent.to(1).call<std::map<std::string, RRef<int>>>("keep_all", 30);
    std::vector<RRef<int>> numbers(1);
    for (const auto& [name, number] : made)
      numbers.push_back(number);
    ASSERT_EQ(numbers.size(), 31u);
    EXPECT_FALSE(numbers[0]);
    for (WorkerId worker = 0; worker < 3; ++worker)
      EXPECT_EQ(agent.to(worker).call<int>("sum", numbers), 30 * 29 / 2);
  });
}

TEST(RRefLifeRanks, EmptyOnesAndWrongTypes) {
  lead_world(2, {.functions = shelf_functions()}, [](Agent& agent) {
    const RRef<int> empty;
    EXPECT_FALSE(empty);
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { empty.to_here(); }),
        "expected a reference to a value, got an empty one"));
    const RRef<int> number = agent.own(3);
    const RRef<std::string> words(number.reference());
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { words.to_here(); }),
        "expected a reference to a value of type string, got one of type int"));
    const auto tally = agent.to(1).remote<std::unique_ptr<Tally>>("make", 1);
    const RRef<int> no_number(tally.reference());
    EXPECT_TRUE(contains(
        message_of<RemoteError>([&] { no_number.to_here(); }),
        "expected a reference to a value of type int that travels, got one of type "
        "trireme::rpc::Tally"));
    // The callee compares the types that both sides mean.
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>(
            [&] { agent.to(1).call<int>("value_of", no_number); }),
        "ref<int>"));
  });
}

// The same on its owner as elsewhere.
TEST(RRefLifeRanks, ValuesComeAsAnyTypeOfTheirName) {
  FunctionTable functions;
  functions.add("floats", [] { return std::vector<float>{1, 2, 3}; });
  lead_world(2, {.functions = functions}, [](Agent& agent) {
    const std::vector<double> expected{1, 2, 3};
    for (WorkerId owner = 0; owner < 2; ++owner) {
      const auto floats = agent.to(owner).remote<std::vector<double>>("floats");
      EXPECT_EQ(floats.to_here(), expected);
      EXPECT_EQ(floats.to_here_async().get(), expected);
    }
    const auto here = agent.to(0).remote<std::vector<double>>("floats");
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { here.local_value(); }),
        "got one of type std::vector<float"));
  });
}

TEST(RRefLifeRanks, AreNotForOtherAgents) {
  lead_world(2, {.functions = shelf_functions()}, [](Agent& agent) {
    const RRef<Tally> mine = agent.keep(std::make_shared<Tally>(1));
    FunctionTable functions = shelf_functions();
    functions.add("strange", [mine] { return mine; });
    lead_world(1, {.functions = functions}, [&](Agent& other) {
      EXPECT_TRUE(contains(
          message_of<InvalidArgument>([&] { other.to(0).call<int>("value_of", mine); }),
          "got one that belongs to another agent of this process"));
      EXPECT_TRUE(contains(
          message_of<RemoteError>([&] { other.to(0).call<RRef<Tally>>("strange"); }),
          "in a result of strange, got one that belongs to another agent"));
    });
    EXPECT_EQ(agent.to(1).call<int>("value_of", mine), 1);
  });
}

// Many references that go around in all ways leave nothing.
TEST(RRefLifeRanks, ManyThatGoAround) {
  run_rpc(RpcKind::Threads, 4, {.functions = shelf_functions()}, [](Agent& agent) {
    std::mt19937 random(static_cast<unsigned>(agent.me().id));
    const auto anyone = [&] { return static_cast<int>(random() % 4); };
    std::vector<RRef<Tally>> kept;
    std::vector<Future<RRef<Tally>>> coming;
    for (int i = 0; i < 300; ++i) {
      kept.push_back(agent.to(anyone()).remote<std::unique_ptr<Tally>>("make", i));
      coming.push_back(agent.to(anyone()).async<RRef<Tally>>(
          "pass",
          kept[random() % kept.size()],
          std::vector<int>{anyone(), anyone(), anyone()}));
      if (random() % 3 == 0)
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(random() % kept.size()));
      if (kept.empty())
        kept.push_back(agent.keep(std::make_shared<Tally>(0)));
    }
    for (Future<RRef<Tally>>& one : coming)
      EXPECT_GE(one.get().call(&Tally::value), 0);
  });
  EXPECT_TRUE(soon([] { return Tally::alive().load() == 0; }));
}

}  // namespace
}  // namespace trireme::rpc
