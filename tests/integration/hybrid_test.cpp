// Data parallelism inside of contexts: the hybrid model in all its ways, against values
// that were worked out by hand and against one process.
#include <signal.h>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hybrid_case.h"
#include "trireme/core/clock.h"
#include "trireme/rpc/future_all.h"
#include "trireme/testing/check.h"

namespace trireme::hybrid {
namespace {

using testing::contains;
using testing::RpcKind;
using testing::same;

constexpr int kRounds = 3;

at::Tensor matrix(std::vector<float> values, int64_t columns) {
  return at::tensor(values).view({-1, columns});
}

// Worked out by hand. Trainers 3 and 2 have the negative of 0 and 1.
StepResult golden(int trainer) {
  const bool outer = trainer == 0 || trainer == 3;
  const double sign = trainer < 2 ? 1 : -1;
  StepResult result;
  if (outer)
    result = {
        .outputs = matrix({-3.5, -3.5, 3.5, 3.5}, 1),
        .loss = at::scalar_tensor(0.0F),
        .fc1 = matrix({-32, -16, 0, -16}, 2),
        .fc2 = matrix({-56, -28, -28}, 3),
        .net = matrix({-16, 16, 8, 8, 8, 0, -16, -4, -4, -4, 0, -16, -4, -4, -4}, 5),
        .em = at::zeros({2, 3})};
  else
    result = {
        .outputs = matrix({0, 0, 7, 7}, 1),
        .loss = at::scalar_tensor(-56.0F),
        .fc1 = matrix({16, -16, 16, -16}, 2),
        .fc2 = matrix({0, -28, -28}, 3),
        .net = matrix({0, 0, 0, 0, 0, -16, 0, -4, -4, -4, -16, 0, -4, -4, -4}, 5),
        .em = at::full({2, 3}, -8)};
  result.loss = result.loss * sign;
  result.fc1 = result.fc1 * sign;
  result.fc2 = result.fc2 * sign;
  result.net = result.net * sign;
  result.em = result.em * sign;
  if (trainer == 3)
    result.outputs = -result.outputs;
  if (trainer == 2)
    result.outputs = matrix({7, 7, 0, 0}, 1);
  return result;
}

void expect_equal(const StepResult& got, const StepResult& wanted) {
  EXPECT_TRUE(at::equal(got.outputs, wanted.outputs)) << got.outputs;
  EXPECT_TRUE(at::equal(got.loss, wanted.loss)) << got.loss;
  EXPECT_TRUE(at::equal(got.fc1, wanted.fc1)) << got.fc1;
  EXPECT_TRUE(at::equal(got.fc2, wanted.fc2)) << got.fc2;
  EXPECT_TRUE(at::equal(got.net, wanted.net)) << got.net;
  EXPECT_TRUE(at::equal(got.em, wanted.em)) << got.em;
}

// What each trainer has after the reduction: the mean over the trainers of what is
// wrapped. Some may have had no part.
std::vector<StepResult> reduced(std::vector<StepResult> raw, Wrap wrap) {
  const auto mean = [&](at::Tensor StepResult::*layer) {
    at::Tensor sum = at::zeros_like(raw[0].*layer);
    for (const StepResult& one : raw)
      sum += one.*layer;
    for (StepResult& one : raw)
      one.*layer = sum / kTrainers;
  };
  if (wrap != Wrap::None)
    mean(&StepResult::fc2);
  if (wrap == Wrap::Outside)
    mean(&StepResult::fc1);
  return raw;
}

TEST(Hybrid, HandWorkedValuesAreThoseOfOneProcess) {
  for (int trainer = 0; trainer < kTrainers; ++trainer)
    expect_equal(one_process(first_weights(), twin_batch(trainer)), golden(trainer));
}

std::vector<StepResult> train_all(
    const Parts& parts,
    const std::function<FeatureSet(int)>& batch,
    bool exact,
    double rate) {
  std::vector<rpc::Future<StepResult>> results;
  for (int trainer = 0; trainer < kTrainers; ++trainer)
    results.push_back(parts.trainers[static_cast<size_t>(trainer)].async(
        &Trainer::train, batch(trainer), exact, rate));
  return rpc::all(std::move(results)).get();
}

void expect_golden_rounds(const Parts& parts, Wrap wrap, bool exact) {
  std::vector<StepResult> wanted;
  for (int trainer = 0; trainer < kTrainers; ++trainer)
    wanted.push_back(golden(trainer));
  wanted = reduced(std::move(wanted), wrap);
  for (int round = 0; round < kRounds; ++round) {
    const auto results = train_all(parts, twin_batch, exact, 0);
    at::Tensor net = at::zeros({3, 5}), em = at::zeros({2, 3});
    for (size_t trainer = 0; trainer < results.size(); ++trainer) {
      SCOPED_TRACE(text("round ", round, ", trainer ", trainer));
      expect_equal(results[trainer], wanted[trainer]);
      net += results[trainer].net;
      em += results[trainer].em;
    }
    EXPECT_TRUE(at::equal(net, at::zeros_like(net)));
    EXPECT_TRUE(at::equal(em, at::zeros_like(em)));
  }
}

// Plain SGD on batches in which nothing cancels out.
void expect_the_same_step(const Parts& parts, Wrap wrap, bool exact) {
  constexpr double kRate = 0.125;
  const Weights first = first_weights();
  std::vector<StepResult> wanted;
  for (int trainer = 0; trainer < kTrainers; ++trainer)
    wanted.push_back(one_process(first, lopsided_batch(trainer)));
  wanted = reduced(std::move(wanted), wrap);
  (void)train_all(parts, lopsided_batch, exact, kRate);
  at::Tensor net = first.net.detach().clone(), em = first.em.detach().clone();
  for (size_t trainer = 0; trainer < wanted.size(); ++trainer) {
    SCOPED_TRACE(text("trainer ", trainer));
    EXPECT_GT(wanted[trainer].fc1.abs().sum().item<float>(), 0);
    EXPECT_GT(wanted[trainer].fc2.abs().sum().item<float>(), 0);
    const auto weights = parts.trainers[trainer].call(&Trainer::weights);
    EXPECT_TRUE(same(weights[0], first.fc1.detach() - kRate * wanted[trainer].fc1));
    EXPECT_TRUE(same(weights[1], first.fc2.detach() - kRate * wanted[trainer].fc2));
    net -= kRate * wanted[trainer].net;
    em -= kRate * wanted[trainer].em;
  }
  EXPECT_FALSE(at::equal(net, first.net));
  EXPECT_FALSE(at::equal(em, first.em));
  EXPECT_TRUE(same(parts.net.call(&RemotePart::weight), net));
  EXPECT_TRUE(same(parts.em.call(&RemotePart::weight), em));
}

// Two microbatches of two, of which trainers 0 and 1 have the first alone. Means are
// over all trainers, with inputs or without.
void expect_uneven_rounds(const Parts& parts, bool exact) {
  std::vector<std::vector<StepResult>> wanted;  // by microbatch
  for (int64_t micro = 0; micro < 2; ++micro) {
    std::vector<StepResult> raw;
    for (int trainer = 0; trainer < kTrainers; ++trainer)
      raw.push_back(
          one_process(first_weights(), rows(twin_batch(trainer), 2 * micro, 2)));
    for (size_t trainer = 0; micro == 1 && trainer < 2; ++trainer) {
      raw[trainer].fc1.zero_();
      raw[trainer].fc2.zero_();
    }
    wanted.push_back(reduced(std::move(raw), Wrap::Outside));
    EXPECT_GT(wanted.back()[0].fc1.abs().sum().item<float>(), 0);
    EXPECT_GT(wanted.back()[0].fc2.abs().sum().item<float>(), 0);
  }
  for (int round = 0; round < kRounds; ++round) {
    std::vector<rpc::Future<std::vector<StepResult>>> results;
    for (int trainer = 0; trainer < kTrainers; ++trainer)
      results.push_back(parts.trainers[static_cast<size_t>(trainer)].async(
          &Trainer::train_uneven,
          twin_batch(trainer),
          int64_t{trainer < 2 ? 1 : 2},
          exact));
    const auto all = rpc::all(std::move(results)).get();
    for (size_t trainer = 0; trainer < all.size(); ++trainer) {
      ASSERT_EQ(all[trainer].size(), trainer < 2 ? 1 : 2);
      for (size_t micro = 0; micro < all[trainer].size(); ++micro) {
        SCOPED_TRACE(text("round ", round, ", trainer ", trainer, ", part ", micro));
        expect_equal(all[trainer][micro], wanted[micro][trainer]);
      }
    }
  }
}

enum class Story { None, Inside, Outside, Uneven };

struct Case {
  Story story;
  bool exact;
  Way way;
};
std::string name_of(const Case& one) {
  const char* stories[] = {"None", "Inside", "Outside", "Uneven"};
  return std::string(stories[static_cast<int>(one.story)]) +
         (one.exact ? "Exact" : "Fast") + to_string(one.way);
}
void PrintTo(const Case& one, std::ostream* out) {
  *out << name_of(one);
}

void lead(rpc::Agent& agent, const Case& one) {
  const Wrap wrap = one.story == Story::None     ? Wrap::None
                    : one.story == Story::Inside ? Wrap::Inside
                                                 : Wrap::Outside;
  {
    const Parts parts(agent, wrap);
    if (one.story == Story::Uneven) {
      expect_uneven_rounds(parts, one.exact);
    } else {
      expect_golden_rounds(parts, wrap, one.exact);
      expect_the_same_step(parts, wrap, one.exact);
    }
  }
  EXPECT_TRUE(no_contexts_left(agent, {0, 1, 2, 3, kServer, kMaster}));
}

// Ends with a shutdown that refuses references which are left.
void tell(RpcKind kind, const Case& one) {
  run_rpc(kind, kWorkers, hybrid_world(kind, one.way), [&](rpc::Agent& agent) {
    if (agent.me().id == kMaster)
      lead(agent, one);
  });
}

class HybridProcs : public ::testing::TestWithParam<Case> {};
TEST_P(HybridProcs, IsAsByHandAndInOneProcess) {
  tell(RpcKind::Processes, GetParam());
}

class HybridRanks : public ::testing::TestWithParam<Case> {};
TEST_P(HybridRanks, IsAsByHandAndInOneProcess) {
  tell(RpcKind::Threads, GetParam());
}

std::vector<Case> cases(const std::vector<Way>& ways) {
  std::vector<Case> all;
  for (const Way way : ways)
    for (const bool exact : {true, false})
      for (const Story story :
           {Story::None, Story::Inside, Story::Outside, Story::Uneven})
        all.push_back({story, exact, way});
  return all;
}
INSTANTIATE_TEST_SUITE_P(
    Cases,
    HybridProcs,
    ::testing::ValuesIn(cases({Way::Unix, Way::JobKey, Way::Certificates})),
    [](const auto& one) { return name_of(one.param); });
INSTANTIATE_TEST_SUITE_P(
    Cases, HybridRanks, ::testing::ValuesIn(cases({Way::Unix})), [](const auto& one) {
      return name_of(one.param);
    });

// A worker is killed in the middle of a backward. Whoever needs it hears of it by name
// within two seconds, and the server keeps nothing of a trainer that is gone.
void kill_in_backward(int victim, Wrap wrap) {
  const testing::SharedNumber death, over;
  const auto world =
      hybrid_world(RpcKind::Processes, Way::Unix, [&](int rank, Home& home) {
        if (rank == victim)
          home.in_backward = [&death] {
            *death = now_ns();
            ::kill(::getpid(), SIGKILL);
          };
      });
  const auto lead = [&](rpc::Agent& agent) {
    const Parts parts(agent, wrap);
    std::vector<rpc::Future<StepResult>> results;
    for (int trainer = 0; trainer < kTrainers; ++trainer)
      results.push_back(parts.trainers[static_cast<size_t>(trainer)].async(
          &Trainer::train, twin_batch(trainer), true, 0.0));
    for (int trainer = 0; trainer < kTrainers; ++trainer) {
      SCOPED_TRACE(text("trainer ", trainer));
      const bool hurt = trainer == victim || victim == kServer || wrap != Wrap::None;
      try {
        (void)results[static_cast<size_t>(trainer)].get();
        EXPECT_FALSE(hurt) << "no error came";
      } catch (const Error& error) {
        EXPECT_TRUE(hurt) << error.what();
        EXPECT_TRUE(
            contains(error.what(), "worker" + std::to_string(victim)) ||
            contains(error.what(), "rank " + std::to_string(victim)))
            << error.what();
      }
    }
    EXPECT_LT(now_ns() - *death, 2'000'000'000);
    if (victim != kServer) {
      EXPECT_TRUE(no_contexts_left(agent, {kServer}));
    }
  };
  testing::RpcProcesses workers(kWorkers, world);
  for (int rank = 0; rank < kWorkers; ++rank)
    workers.start([&](rpc::Agent& agent) {
      const Deadline limit = Deadline::after(std::chrono::seconds(20));
      if (agent.me().id == kMaster) {
        lead(agent);
        *over = 1;
      }
      while (*over == 0 && !limit.expired())
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return *over == 1 ? 0 : 1;
    });
  const auto endings = workers.processes().wait(std::chrono::seconds(30));
  for (int rank = 0; rank < kWorkers; ++rank) {
    const testing::Ending& ending = endings[static_cast<size_t>(rank)];
    EXPECT_EQ(ending.signal, rank == victim ? SIGKILL : 0) << "worker " << rank;
    EXPECT_EQ(ending.exit_code, rank == victim ? -1 : 0) << "worker " << rank;
  }
}

TEST(HybridKillProcs, ATrainer) {
  for (const Wrap wrap : {Wrap::None, Wrap::Outside})
    kill_in_backward(2, wrap);
}

TEST(HybridKillProcs, TheServer) {
  for (const Wrap wrap : {Wrap::None, Wrap::Inside, Wrap::Outside})
    kill_in_backward(kServer, wrap);
}

}  // namespace
}  // namespace trireme::hybrid
