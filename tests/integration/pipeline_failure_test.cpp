// A stage that throws, a rank that is killed, a rank that stalls: everybody hears of
// it, by name, and the next step is right.
#include <signal.h>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../pipe/models.h"
#include "pipeline_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;
using testing::contains;

constexpr int64_t kFailingWidth = 6;
constexpr int kRanks = 3;

enum class In { Nothing, Forward, Backward, Weights, Loss };

/// Where it is to go wrong on this rank; shared by its stage and its test.
struct Trouble {
  In in = In::Nothing;
  int microbatch = 0;
  /// How many microbatches have gone forward in this step.
  int seen = 0;

  void plan(In where, int at) { *this = {.in = where, .microbatch = at}; }
  bool strikes(In where, int at) const { return in == where && microbatch == at; }
};

/// A stage that computes as dense() does, until there is trouble.
StagePtr troubled(const StagePtr& inner, const std::shared_ptr<Trouble>& trouble) {
  const NamedTensors parameters = inner->parameters();
  parameters[0].second.register_hook([trouble](const at::Tensor&) {
    if (trouble->in == In::Weights)
      throw std::runtime_error("trouble with the weights");
  });
  return make_stage(
      [inner, trouble](const Tensors& in) {
        const int microbatch = trouble->seen++;
        if (trouble->strikes(In::Forward, microbatch))
          throw std::runtime_error("trouble on the way there");
        Tensors out = inner->forward(in);
        if (trouble->strikes(In::Backward, microbatch))
          out[0].register_hook([](const at::Tensor& gradient) -> at::Tensor {
            TORCH_CHECK(gradient.numel() == 0, "trouble on the way back");
            return gradient;
          });
        return out;
      },
      parameters);
}

/// The problem as one rank sees it: its own stage and the loss can go wrong.
Problem with_trouble(
    Problem problem, int rank, const std::shared_ptr<Trouble>& trouble) {
  problem.model = [plain = problem.model, rank, trouble] {
    std::vector<StagePtr> model = plain();
    StagePtr& mine = model[static_cast<size_t>(rank)];
    mine = troubled(mine, trouble);
    return model;
  };
  problem.loss = [plain = problem.loss, trouble](
                     const Tensors& out, const Tensors& target) {
    if (trouble->strikes(In::Loss, trouble->seen - 1))
      throw std::runtime_error("trouble with the loss");
    return plain(out, target);
  };
  return problem;
}

struct Planned {
  In in;
  int rank;
  int microbatch;
  /// What the message has to say.
  std::string action;
  std::string what;
};

std::vector<Planned> all_troubles(bool splits) {
  std::vector<Planned> all;
  for (int rank = 0; rank < kRanks; ++rank) {
    all.push_back({In::Forward, rank, 1, text(rank, "F1"), "trouble on the way there"});
    // The first stage has no input that wants a gradient: all is left to its W.
    const char* backward = !splits ? "B2" : rank == 0 ? "W2" : "I2";
    all.push_back(
        {In::Backward, rank, 2, text(rank, backward), "trouble on the way back"});
    all.push_back(
        {In::Weights,
         rank,
         0,
         text(rank, splits ? "W0" : "B0"),
         "trouble with the weights"});
  }
  all.push_back({In::Loss, kRanks - 1, 3, "2F3", "trouble with the loss"});
  return all;
}

void recovers_from_all(Backend backend, const std::string& schedule) {
  const Problem problem = dense_problem(schedule, kRanks, 4);
  const Outcome wanted = run_alone(problem);
  const bool splits = schedule == "ZB-H1";
  testing::run_world(backend, kRanks, [&](const comm::Group& first_world) {
    comm::Group world = first_world;
    const auto trouble = std::make_shared<Trouble>();
    PipelineRank rank(with_trouble(problem, world.rank(), trouble), world);
    for (const Planned& planned : all_troubles(splits)) {
      SCOPED_TRACE(text(schedule, ", ", planned.action, ", rank ", world.rank()));
      trouble->plan(
          planned.rank == world.rank() ? planned.in : In::Nothing, planned.microbatch);
      const FailedStep failed = rank.failing_step();
      EXPECT_EQ(failed.rank, planned.rank);
      EXPECT_EQ(failed.here, planned.rank == world.rank());
      // What it was comes first where it was; the others hear who it was first.
      const std::string first_line = failed.text.substr(0, failed.text.find('\n'));
      EXPECT_TRUE(contains(first_line, planned.what));
      EXPECT_EQ(failed.here, !first_line.starts_with("[pipe] rank ")) << failed.text;
      const bool torchs = planned.in == In::Backward;
      if (!failed.here || torchs) {
        for (const std::string& part :
             {text(
                  "rank ",
                  planned.rank,
                  " failed at ",
                  planned.action,
                  " (stage ",
                  planned.rank,
                  ", microbatch ",
                  planned.microbatch,
                  ")"),
              text(">", planned.action, "<"),
              text("Step ")})
          EXPECT_TRUE(contains(failed.text, part));
      } else {
        EXPECT_EQ(failed.text, first_line);
      }
      // Until everybody has come back, it says so.
      EXPECT_THROW(rank.step(), InvalidArgument);
      world = world.renew();
      rank.pipeline().rejoin(world);
      trouble->plan(In::Nothing, 0);
      rank.zero_grad();
      rank.expect(wanted, rank.step());
    }
  });
}

TEST(PipelineFailureRanks, EveryRankHearsOfAnExceptionAndGoesOn) {
  recovers_from_all(Backend::Local, "1F1B");
  recovers_from_all(Backend::Local, "ZB-H1");
}

TEST(PipelineFailureProcs, EveryRankHearsOfAnExceptionAndGoesOn) {
  recovers_from_all(Backend::Shm, "1F1B");
  recovers_from_all(Backend::Shm, "ZB-H1");
}

// Both halves of an overlap are named; one fails while the other computes.
TEST(PipelineFailureRanks, AnOverlapThatFails) {
  const Problem problem = dense_problem("DualPipeV", 4, 6);
  const Outcome wanted = run_alone(problem);
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    PipelineRank rank(problem, world);
    bool armed = world.rank() == 1;
    rank.pipeline().replace(sched::ActionKind::Overlap, [&](ActionContext& context) {
      context.run();
      if (armed)
        throw std::runtime_error("trouble in an overlap");
    });
    const FailedStep failed = rank.failing_step();
    EXPECT_TRUE(contains(failed.text, "trouble in an overlap"));
    if (!failed.here) {
      for (const char* part : {"rank 1 failed at (", "OVERLAP_F_B", " and stage "})
        EXPECT_TRUE(contains(failed.text, part));
    }
    armed = false;
    rank.pipeline().rejoin(world.renew());
    rank.zero_grad();
    rank.expect(wanted, rank.step());
  });
}

TEST(PipelineFailureRanks, AStalledRankIsNamed) {
  const Problem problem = dense_problem("1F1B", 2, 4);
  testing::run_world(
      Backend::Local,
      2,
      [&](const comm::Group& world) {
        Problem mine = problem;
        if (world.rank() == 1)
          mine.loss = [&](const Tensors& out, const Tensors& target) {
            std::this_thread::sleep_for(std::chrono::milliseconds(900));
            return problem.loss(out, target);
          };
        PipelineRank rank(mine, world);
        if (world.rank() == 1) {
          EXPECT_THROW(rank.step(), Error);
          return;
        }
        const std::string message =
            testing::message_of<TimeoutError>([&] { rank.step(); });
        EXPECT_TRUE(contains(
            message,
            "rank 0 waited at 0RECV_B0 for 1SEND_B0 of rank 1 (stage 0, microbatch "
            "0)"));
      },
      {.timeout = std::chrono::milliseconds(300)});
}

TEST(PipelineFailureProcs, AKilledRankIsNoticedWithinTwoSeconds) {
  const Problem problem = dense_problem("ZB-H1", kRanks, 4);
  for (int victim = 0; victim < kRanks; ++victim) {
    const testing::SharedNumber death;
    testing::Processes processes;
    processes.start_ranks(
        testing::fresh_job_name(), kRanks, [&](const comm::Group& world) {
          PipelineRank rank(problem, world);
          int steps = 0;
          rank.pipeline().replace(
              sched::ActionKind::WeightGrad, [&](ActionContext& context) {
                context.run();
                if (world.rank() == victim && steps == 2 &&
                    context.action().microbatch() == 1) {
                  *death = now_ns();
                  ::kill(::getpid(), SIGKILL);
                }
              });
          try {
            for (;; ++steps)
              rank.step();
          } catch (const PeerError& error) {
            EXPECT_EQ(error.rank(), victim) << error.what();
            EXPECT_LT(now_ns() - *death, 2'000'000'000);
            return ::testing::Test::HasFailure() ? 1 : testing::kNoticed;
          }
        });
    testing::expect_noticed(processes.wait(std::chrono::seconds(20)), victim);
  }
}

}  // namespace
}  // namespace trireme::pipe
