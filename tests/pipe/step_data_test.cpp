#include "trireme/pipe/step_data.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::pipe {
namespace {

using testing::message_of;

const StagePlaces kFirst{.rank = 0, .rank_of_stage = {0, 1}};
const StagePlaces kLast{.rank = 1, .rank_of_stage = {0, 1}};
const StagePlaces kBoth{.rank = 0, .rank_of_stage = {0, 1, 1, 0}};

StepData cut(
    const Batch& batch,
    const StagePlaces& place,
    const PipelineOptions& options = {},
    int microbatches = 4) {
  return make_step_data(batch, options, place, microbatches, {});
}

TEST(StepData, CutsInputsOnTheFirstAndTargetsOnTheLastRank) {
  const at::Tensor x = at::arange(8).reshape({8, 1});
  EXPECT_EQ(cut({.inputs = {x}}, kFirst).inputs.size(), 4U);
  EXPECT_TRUE(cut({.inputs = {x}}, kFirst).targets.empty());
  const StepData last = cut({.targets = {x}}, kLast);
  EXPECT_EQ(last.targets.size(), 4U);
  EXPECT_EQ(last.losses.size(), 4U);
  const StepData both = cut({.inputs = {x}, .targets = {x}}, kBoth);
  EXPECT_TRUE(at::equal(both.inputs[3][0], x.slice(0, 6, 8)));
  EXPECT_TRUE(at::equal(both.targets[3][0], x.slice(0, 6, 8)));
}

// One line of a program for all ranks: each takes what its stages need.
TEST(StepData, TakesItsPartOfABatchThatAllRanksGive) {
  const at::Tensor x = at::arange(8).reshape({8, 1});
  const Batch all{
      .inputs = {x},
      .targets = {x + 1},
      .side_inputs = {{1, {x}}},
      .on_all_ranks = true};
  const StepData first = cut(all, kFirst);
  EXPECT_EQ(first.inputs.size(), 4U);
  EXPECT_TRUE(first.targets.empty());
  EXPECT_TRUE(first.side_inputs.empty());
  const StepData last = cut(all, kLast);
  EXPECT_TRUE(last.inputs.empty());
  EXPECT_EQ(last.targets.size(), 4U);
  EXPECT_EQ(last.side_inputs.at(1).size(), 4U);
  // What a rank needs must be there all the same.
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        cut({.inputs = {x}, .on_all_ranks = true}, kLast);
      }).find("expected targets on rank 1"),
      std::string::npos);
}

TEST(StepData, AStepMayHaveItsOwnScale) {
  const at::Tensor x = at::zeros({4, 1});
  EXPECT_EQ(
      cut({.inputs = {x}, .targets = {x}, .loss_scale = 8}, kBoth, {.loss_scale = 2})
          .loss_weights,
      (std::vector<double>{2, 2, 2, 2}));
}

TEST(StepData, UnevenMicrobatchesCountByTheirRows) {
  const at::Tensor x = at::zeros({10, 1});
  const StepData data =
      cut({.inputs = {x}, .targets = {x}, .first_sample = 100}, kBoth);
  const double row = 1.0 / 10;
  EXPECT_EQ(
      data.loss_weights, (std::vector<double>{3 * row, 3 * row, 2 * row, 2 * row}));
  EXPECT_EQ(
      data.samples, (std::vector<SampleRange>{{100, 3}, {103, 3}, {106, 2}, {108, 2}}));
}

TEST(StepData, WeightsAreNormalisedForAMeanAndNotForASum) {
  const at::Tensor x = at::zeros({4, 1});
  const Batch batch{.inputs = {x}, .targets = {x}, .weights = {1, 2, 3, 2}};
  EXPECT_EQ(
      cut(batch, kBoth).loss_weights, (std::vector<double>{0.125, 0.25, 0.375, 0.25}));
  EXPECT_EQ(
      cut(batch, kBoth, {.reduction = LossReduction::Sum, .loss_scale = 2})
          .loss_weights,
      (std::vector<double>{2, 4, 6, 4}));
  EXPECT_EQ(
      cut({.inputs = {x}, .targets = {x}}, kBoth, {.reduction = LossReduction::Sum})
          .loss_weights,
      (std::vector<double>{1, 1, 1, 1}));
}

TEST(StepData, TakesListsThatAreCutAlready) {
  const at::Tensor x = at::zeros({2, 1});
  const Batch batch{
      .input_microbatches = {{x}, {x}},
      .target_microbatches = {{x}, {x}},
      .side_input_microbatches = {{3, {{x}, {x}}}}};
  const StepData data = cut(batch, kBoth, {}, 2);
  EXPECT_EQ(data.inputs.size(), 2U);
  EXPECT_EQ(data.side_inputs.at(3).size(), 2U);
  EXPECT_EQ(count_microbatches(batch, {}), 2);
}

TEST(StepData, CountsMicrobatches) {
  EXPECT_EQ(count_microbatches({}, {.microbatches = 3}), 3);
  EXPECT_EQ(count_microbatches({.microbatches = 5}, {.microbatches = 3}), 5);
  sched::Schedule custom{.name = "mine", .microbatches = 2};
  EXPECT_EQ(count_microbatches({}, {.custom = custom}), 2);
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [&] { count_microbatches({.microbatches = 3}, {.custom = custom}); }),
      "[pipe] expected 2 microbatches, which is what the custom schedule has, got 3; "
      "cut "
      "the batch accordingly");
  EXPECT_EQ(
      message_of<InvalidArgument>([] { count_microbatches({}, {}); }),
      "[pipe] expected at least 1 microbatch, got 0; set PipelineOptions::microbatches "
      "or "
      "Batch::microbatches");
}

TEST(StepData, RefusesDataOnAWrongRank) {
  const at::Tensor x = at::zeros({8, 1});
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { cut({.inputs = {x}, .targets = {x}}, kLast); }),
      "[pipe] expected no inputs on rank 1 (stage 0 is on rank 0), got some; give them "
      "on the rank that has the stage alone, or set Batch::on_all_ranks");
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [&] { cut({.inputs = {x}, .targets = {x}}, kFirst); }),
      "[pipe] expected no targets on rank 0 (stage 1 is on rank 1), got some; give "
      "them on the rank that has the stage alone, or set Batch::on_all_ranks");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        cut({.inputs = {x}, .side_inputs = {{1, {x}}}}, kFirst);
      }),
      "[pipe] expected no side inputs of stage 1 on rank 0 (stage 1 is on rank 1), got "
      "some; give them on the rank that has the stage alone, or set "
      "Batch::on_all_ranks");
}

TEST(StepData, RefusesMissingData) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { cut({}, kFirst); }),
      "[pipe] expected inputs on rank 0 (stage 0 is on rank 0), got none; pass them to "
      "the call on this rank");
  EXPECT_EQ(
      message_of<InvalidArgument>([] { cut({}, kLast); }),
      "[pipe] expected targets on rank 1 (stage 1 is on rank 1), got none; pass them "
      "to "
      "the call on this rank");
  EXPECT_NO_THROW(make_step_data({}, {}, kLast, 4, {.needs_targets = false}));
}

TEST(StepData, RefusesWrongNumbers) {
  const at::Tensor x = at::zeros({3, 1});
  const std::string few =
      message_of<InvalidArgument>([&] { cut({.inputs = {x}}, kFirst); });
  EXPECT_NE(few.find("inputs of stage 0, rank 0"), std::string::npos) << few;
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        cut({.input_microbatches = {{x}}}, kFirst);
      }).find("expected 4 microbatches of inputs on rank 0"),
      std::string::npos);
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        cut({.inputs = {x}, .input_microbatches = {{x}}}, kFirst);
      }).find("whole or cut, got both"),
      std::string::npos);
  const at::Tensor y = at::zeros({4, 1});
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        cut({.targets = {y}, .weights = {1, 2}}, kLast);
      }).find("expected 4 loss weights, got 2"),
      std::string::npos);
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        cut({.targets = {y}, .weights = {0, 0, 0, 0}}, kLast);
      }).find("with a sum above 0, got 0"),
      std::string::npos);
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        cut({.inputs = {y}, .side_inputs = {{7, {y}}}}, kFirst);
      }).find("side inputs of stages 0 to 1, got some of stage 7"),
      std::string::npos);
}

}  // namespace
}  // namespace trireme::pipe
