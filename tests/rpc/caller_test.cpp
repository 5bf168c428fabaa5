#include "trireme/rpc/caller.h"

#include <atomic>
#include <map>
#include <optional>
#include <tuple>

#include "worlds.h"

namespace trireme::rpc {
namespace {

struct Point {
  int x = 0;
  std::vector<double> y;
  at::Tensor weight;
};

}  // namespace

template <>
struct Fields<Point> {
  static constexpr auto name = "Point";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&Point::x, &Point::y, &Point::weight);
};

namespace {

using Mixed = std::tuple<int, std::string, std::optional<double>>;

struct Adder {
  int step;
  int operator()(int value) const { return value + step; }
  static std::string twice(const std::string& word) { return word + word; }
};

int plain_function(int a, int b) {
  return a * b;
}

FunctionTable caller_functions() {
  FunctionTable functions;
  functions.add("add", [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
  functions.add("sum_of", [](const std::vector<RRef<at::Tensor>>& parts) {
    at::Tensor sum = parts.at(0).to_here();
    for (std::size_t i = 1; i < parts.size(); ++i)
      sum = sum + parts[i].to_here();
    return sum;
  });
  functions.add("pass", [](const at::Tensor& tensor, int hops) {
    if (hops == 0)
      return ready_future(tensor);
    const int next = (this_agent().me().id + 1) % 3;
    return this_agent().to(next).async<at::Tensor>("pass", tensor, hops - 1);
  });
  functions.add("nonzero", [](const at::Tensor& a) { return a.nonzero(); });
  functions.add("view", [](const at::Tensor& a) { return a.t().slice(0, 1, 3); });
  functions.add("twice_of_all", [](std::vector<at::Tensor> all) {
    for (at::Tensor& one : all)
      one = one.defined() ? one * 2 : one;
    return all;
  });
  functions.add("needs", [](const at::Tensor& a) { return a.requires_grad(); });
  functions.add("point", [](Point point) {
    point.x += 1;
    point.y.push_back(0.5);
    return point;
  });
  functions.add("mix", [](const Mixed& mixed, std::map<std::string, int> counts) {
    counts[std::get<1>(mixed)] = std::get<0>(mixed);
    return counts;
  });
  functions.add("negate", [](bool truth) { return !truth; });
  functions.add("step", Adder{.step = 3});
  functions.add("twice", &Adder::twice);
  functions.add("times", &plain_function);
  functions.add("who", [] { return this_agent().me().name; });
  functions.add("caller", [] { return this_call()->caller->name; });
  functions.add("later", [](int value) {
    return this_agent().to(2).async<int>("times", value, 2);
  });
  functions.add("later_twice", [](int value) {
    return this_agent()
        .to(2)
        .async<int>("times", value, 2)
        .then(
            [](int first) { return this_agent().to(0).async<int>("times", first, 2); })
        .then([](int second) { return second + 1; });
  });
  functions.add("fan_out", [](int value) {
    std::vector<Future<int>> parts;
    for (int worker = 0; worker < 3; ++worker)
      parts.push_back(this_agent().to(worker).async<int>("times", value, worker));
    return all(std::move(parts)).then([](const std::vector<int>& values) {
      return values[0] + values[1] + values[2];
    });
  });
  functions.add("later_fails", [](const std::string& why) {
    return this_agent().to(2).async<int>("times", 1, 2).then([why](int) -> int {
      throw std::logic_error(why);
    });
  });
  functions.add("down", [](int hops) -> int {
    if (hops == 0)
      return 0;
    const int next = (this_agent().me().id + 1) % 3;
    return this_agent().to(next).call<int>("down", hops - 1) + 1;
  });
  functions.add("tree", [](int depth) -> int {
    if (depth == 0)
      return 1;
    std::vector<Future<int>> parts;
    for (int worker = 0; worker < 3; ++worker)
      parts.push_back(this_agent().to(worker).async<int>("tree", depth - 1));
    int sum = 0;
    for (auto& part : parts)
      sum += part.get();
    return sum;
  });
  return functions;
}

class CallerRanks : public ::testing::TestWithParam<RpcKind> {
 protected:
  // All call all.
  void each(const std::function<void(Agent&, const Caller&)>& body) {
    run_rpc(GetParam(), 3, {.functions = caller_functions()}, [&](Agent& agent) {
      for (const WorkerInfo& worker : agent.workers())
        body(agent, agent.to(worker));
    });
  }
};

TEST_P(CallerRanks, ByNameAndNumber) {
  each([](Agent& agent, const Caller& there) {
    const WorkerInfo& worker = there.worker();
    EXPECT_EQ(agent.to(worker.name).call<std::string>("who"), worker.name);
    EXPECT_EQ(agent.to(worker.id).call<std::string>("who"), worker.name);
    EXPECT_EQ(there.call<std::string>("caller"), agent.me().name);
    EXPECT_EQ(worker.role, "default");
  });
}

TEST_P(CallerRanks, Tensors) {
  each([](Agent&, const Caller& there) {
    const at::Tensor ones = at::ones({3, 4});
    EXPECT_TRUE(at::equal(there.call<at::Tensor>("add", ones, ones), ones * 2));
    for (const auto type : {at::kByte, at::kHalf, at::kDouble, at::kComplexFloat}) {
      const at::Tensor typed = at::ones({2}, type);
      EXPECT_TRUE(
          at::equal(there.call<at::Tensor>("add", typed, typed), typed + typed));
    }
    const at::Tensor table = at::arange(12).view({3, 4});
    EXPECT_TRUE(at::equal(there.call<at::Tensor>("nonzero", table), table.nonzero()));
    EXPECT_TRUE(
        at::equal(there.call<at::Tensor>("view", table), table.t().slice(0, 1, 3)));
    const at::Tensor turned = table.t();
    EXPECT_FALSE(turned.is_contiguous());
    EXPECT_TRUE(
        at::equal(there.call<at::Tensor>("add", turned, turned), turned + turned));
    EXPECT_TRUE(there.call<bool>("needs", at::ones({2}).requires_grad_()));
    EXPECT_FALSE(there.call<bool>("needs", at::ones({2})));
  });
}

TEST_P(CallerRanks, SparseTensors) {
  each([](Agent&, const Caller& there) {
    const at::Tensor sparse = at::eye(4).to_sparse();
    const at::Tensor sum = there.call<at::Tensor>("add", sparse, sparse);
    EXPECT_TRUE(sum.is_sparse());
    EXPECT_TRUE(at::equal(sum.to_dense(), at::eye(4) * 2));
    const auto back = there.call<std::vector<at::Tensor>>(
        "twice_of_all", std::vector{sparse, at::ones({2}), at::Tensor()});
    ASSERT_EQ(back.size(), 3u);
    EXPECT_TRUE(at::equal(back[0].to_dense(), at::eye(4) * 2));
    EXPECT_TRUE(at::equal(back[1], at::full({2}, 2.0f)));
    EXPECT_FALSE(back[2].defined());
  });
}

TEST_P(CallerRanks, LargeTensors) {
  each([](Agent&, const Caller& there) {
    const at::Tensor large = at::rand({3 << 20});
    EXPECT_TRUE(at::equal(there.call<at::Tensor>("add", large, large), large + large));
  });
}

TEST_P(CallerRanks, StructsAndContainers) {
  each([](Agent&, const Caller& there) {
    const Point back =
        there.call<Point>("point", Point{.x = 1, .y = {2}, .weight = at::ones({2})});
    EXPECT_EQ(back.x, 2);
    EXPECT_EQ(back.y, (std::vector<double>{2, 0.5}));
    EXPECT_TRUE(at::equal(back.weight, at::ones({2})));
    using Counts = std::map<std::string, int>;
    EXPECT_EQ(
        (there.call<Counts>("mix", Mixed{7, "new", std::nullopt}, Counts{{"old", 1}})),
        (Counts{{"new", 7}, {"old", 1}}));
    EXPECT_TRUE(there.call<bool>("negate", false));
  });
}

TEST_P(CallerRanks, AllKindsOfFunctions) {
  each([](Agent&, const Caller& there) {
    EXPECT_EQ(there.call<int>("step", 4), 7);
    EXPECT_EQ(there.call<std::string>("twice", "ab"), "abab");
    EXPECT_EQ(there.call<int>("times", 4, 5), 20);
  });
}

// A function that returns a future is free until that is ready.
TEST_P(CallerRanks, FunctionsThatReturnFutures) {
  each([](Agent& agent, const Caller& there) {
    EXPECT_EQ(there.call<int>("later", 4), 8);
    EXPECT_EQ(there.async<int>("later_twice", 4).get(), 17);
    EXPECT_EQ(there.call<int>("fan_out", 4), 12);
    EXPECT_EQ(there.remote<int>("later_twice", 4).to_here(), 17);
    EXPECT_TRUE(contains(
        message_of<RemoteError>([&] { there.call<int>("later_fails", "too bad"); }),
        "std::logic_error: too bad"));
    // The owner of what could not be made has the exception itself.
    const RRef<int> none = there.remote<int>("later_fails", "too bad");
    if (there.to() == agent.me().id) {
      EXPECT_THROW(none.to_here(), std::logic_error);
    } else {
      EXPECT_THROW(none.to_here(), RemoteError);
    }
  });
}

TEST_P(CallerRanks, CallsInsideOfCalls) {
  each([](Agent&, const Caller& there) {
    EXPECT_EQ(there.call<int>("down", 5), 5);
    EXPECT_EQ(there.call<int>("down", 40), 40);  // far more than there are threads
    EXPECT_EQ(there.call<int>("tree", 4), 81);
  });
}

TEST_P(CallerRanks, ManyFromManyThreads) {
  each([](Agent&, const Caller& there) {
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 200; ++i)
          good += there.call<int>("times", i, thread) == i * thread ? 1 : 0;
      });
    for (std::thread& thread : threads)
      thread.join();
    EXPECT_EQ(good.load(), 800);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Threads, CallerRanks, ::testing::Values(RpcKind::Threads), [](const auto& kind) {
      return to_string(kind.param);
    });
// Apart, since who forks must not have used libtorch's threads.
INSTANTIATE_TEST_SUITE_P(
    Processes,
    CallerRanks,
    ::testing::Values(RpcKind::Processes),
    [](const auto& kind) { return to_string(kind.param); });

// All ways of a sparse tensor: into calls, out of them, through nested ones, and behind
// references that go to a third worker.
TEST_P(CallerRanks, SparseTensorsAllWays) {
  each([](Agent& agent, const Caller& there) {
    const at::Tensor sparse = at::eye(4).to_sparse();
    const auto expect_times = [](double factor, const at::Tensor& got) {
      EXPECT_TRUE(got.is_sparse());
      EXPECT_TRUE(at::equal(got.to_dense(), at::eye(4) * factor));
    };
    const Point back =
        there.call<Point>("point", Point{.x = 0, .y = {}, .weight = sparse});
    expect_times(1, back.weight);
    expect_times(1, there.call<at::Tensor>("pass", sparse, 4));
    const auto sum = there.remote<at::Tensor>("add", sparse, sparse);
    expect_times(2, sum.to_here());
    const auto own = agent.own(sparse);
    for (WorkerId user = 0; user < 3; ++user)
      expect_times(
          6,
          agent.to(user).call<at::Tensor>(
              "sum_of", std::vector<RRef<at::Tensor>>{sum, own, sum, own}));
    std::vector<Future<at::Tensor>> many;
    std::vector<RRef<at::Tensor>> made;
    for (int i = 0; i < 50; ++i) {
      many.push_back(there.async<at::Tensor>("add", sparse, sparse));
      made.push_back(there.remote<at::Tensor>("add", sparse, sparse));
    }
    for (const auto& one : many)
      expect_times(2, one.get());
    expect_times(100, there.call<at::Tensor>("sum_of", made));
  });
}

// A world of one calls itself.
TEST(CallerSelfRanks, AloneInTheWorld) {
  lead_world(1, {.functions = caller_functions()}, [](Agent& agent) {
    EXPECT_EQ(agent.to(0).call<int>("times", 6, 7), 42);
    EXPECT_EQ(agent.to(0).remote<int>("times", 6, 7).to_here(), 42);
  });
}

// What a call to oneself takes and gives is the caller's own memory.
TEST(CallerSelfRanks, CopiesNoTensors) {
  FunctionTable functions;
  functions.add("same", [](const at::Tensor& tensor) { return tensor; });
  lead_world(1, {.functions = functions}, [](Agent& agent) {
    const at::Tensor ones = at::ones({100});
    EXPECT_EQ(agent.to(0).call<at::Tensor>("same", ones).data_ptr(), ones.data_ptr());
  });
}

TEST(CallerFutureRanks, ThenHandleAndAll) {
  lead_world(3, {.functions = caller_functions()}, [](Agent& agent) {
    std::vector<Future<int>> calls;
    for (int i = 0; i < 30; ++i)
      calls.push_back(agent.to(i % 3).async<int>("times", i, 2).then([](int twice) {
        return twice + 1;
      }));
    int sum = 0;
    for (const int one : all(std::move(calls)).get())
      sum += one;
    EXPECT_EQ(sum, 29 * 30 + 30);
    const auto failed =
        agent.to(1).async<int>("later_fails", "no").handle([](const Future<int>& done) {
          return done.failed();
        });
    EXPECT_TRUE(failed.get());
    // Calls from a continuation, which must not wait, but may begin others.
    const auto chained = agent.to(1).async<int>("times", 2, 3).then([&agent](int six) {
      return agent.to(2).async<int>("times", six, 7);
    });
    EXPECT_EQ(chained.get(), 42);
  });
}

// Adds what all trainers send, and answers when the last one has.
class Mean {
 public:
  explicit Mean(int trainers) : trainers_(trainers) {}
  Future<at::Tensor> add(const at::Tensor& gradient) {
    std::vector<Promise<at::Tensor>> ready;
    at::Tensor mean;
    const std::lock_guard lock(mutex_);
    sum_ = sum_.defined() ? sum_ + gradient : gradient;
    Future<at::Tensor> future = waiting_.emplace_back().future();
    if (static_cast<int>(waiting_.size()) == trainers_) {
      mean = sum_ / trainers_;
      sum_ = at::Tensor();
      ready.swap(waiting_);
    }
    for (auto& promise : ready)
      promise.set_value(mean);
    return future;
  }

 private:
  int trainers_;
  std::mutex mutex_;
  at::Tensor sum_;
  std::vector<Promise<at::Tensor>> waiting_;
};

// A layer of 100 inputs and 30 outputs, on the server with its optimizer, SGD with
// momentum: trainers take it, send gradients of their own batches, and get it back when
// the mean of all of them was applied.
class BatchServer {
 public:
  explicit BatchServer(int trainers) : gradients_(trainers) {}

  at::Tensor weight() const { return weight_; }
  Future<at::Tensor> update(const at::Tensor& gradient) {
    return gradients_.add(gradient).then([this](const at::Tensor& mean) {
      const std::lock_guard lock(mutex_);
      // The first of those that the mean belongs to.
      if (++taken_ % kBatchTrainers == 1)
        step(weight_, momentum_, mean);
      return weight_;
    });
  }
  static void step(at::Tensor& weight, at::Tensor& momentum, const at::Tensor& mean) {
    momentum = momentum * 0.9 + mean;
    weight = weight - momentum * 0.05;  // anew: others may still be sent the old one
  }
  static constexpr int kBatchTrainers = 3;

 private:
  Mean gradients_;
  std::mutex mutex_;
  int taken_ = 0;
  at::Tensor weight_ = at::linspace(-1, 1, 3000).view({30, 100});
  at::Tensor momentum_ = at::zeros({30, 100});
};

at::Tensor batch_gradient(const at::Tensor& weight, int trainer, int step) {
  const at::Tensor x = at::linspace(trainer, step + 1, 700).view({7, 100}).cos();
  const at::Tensor leaf = weight.detach().requires_grad_();
  at::mse_loss(at::linear(x, leaf), at::ones({7, 30})).backward();
  return leaf.grad();
}

TEST(CallerServerRanks, TrainsAsOneProcessWould) {
  constexpr int kTrainers = BatchServer::kBatchTrainers, kSteps = 5;
  BatchServer server(kTrainers);
  FunctionTable functions;
  functions.add("weight", [&] { return server.weight(); });
  functions.add(
      "update", [&](const at::Tensor& gradient) { return server.update(gradient); });
  at::Tensor expected = server.weight(), momentum = at::zeros({30, 100});
  for (int step = 0; step < kSteps; ++step) {
    at::Tensor sum = at::zeros({30, 100});
    for (int trainer = 0; trainer < kTrainers; ++trainer)
      sum = sum + batch_gradient(expected, trainer, step);
    BatchServer::step(expected, momentum, sum / kTrainers);
  }
  run_rpc(RpcKind::Threads, kTrainers + 1, {.functions = functions}, [&](Agent& agent) {
    if (agent.me().id == kTrainers)
      return;
    const Caller to_server = agent.to(kTrainers);
    at::Tensor weight = to_server.call<at::Tensor>("weight");
    for (int step = 0; step < kSteps; ++step)
      weight = to_server.call<at::Tensor>(
          "update", batch_gradient(weight, agent.me().id, step));
    // The gradients are summed in the order in which they come.
    EXPECT_TRUE(at::allclose(weight, expected, 1e-4, 1e-6));
  });
}

// A parameter server: no thread of it waits, however many trainers there are.
TEST(CallerServerRanks, AllReportBeforeAnyGoesOn) {
  constexpr int kTrainers = 5;
  Mean mean(kTrainers);
  FunctionTable functions;
  functions.add(
      "report", [&](const at::Tensor& gradient) { return mean.add(gradient); });
  run_rpc(
      RpcKind::Threads,
      kTrainers + 1,
      {.functions = functions,
       .edit =
           [](AgentOptions& options) {
             options.pool.threads = 1;
             options.pool.most = 2;
           }},
      [&](Agent& agent) {
        if (agent.me().id == kTrainers)
          return;
        at::Tensor weight = at::zeros({30, 100});
        for (int step = 0; step < 4; ++step)
          weight -= agent.to(kTrainers).call<at::Tensor>(
              "report", at::full({30, 100}, agent.me().id * (step + 1.0)));
        // The mean of 0 to 4 is 2, and the steps weigh 1 to 4.
        EXPECT_TRUE(at::equal(weight, at::full({30, 100}, -20.0)));
      });
}

}  // namespace
}  // namespace trireme::rpc
