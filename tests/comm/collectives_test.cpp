// What the front end makes of a call, and which calls it refuses before anybody waits.
#include "trireme/comm/collectives.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fake_engine.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using testing::message_of;

// Rank 1 of 3.
class Collectives : public ::testing::Test {
 protected:
  const NotedCall& last() const { return engine->calls.back(); }
  std::string refusal(const std::function<void()>& call) const {
    const std::string what = message_of<InvalidArgument>(call);
    EXPECT_TRUE(engine->calls.empty()) << "the others would wait";
    return what;
  }
  std::shared_ptr<FakeEngine> engine = std::make_shared<FakeEngine>(1, 3);
  Group group{engine, {.timeout = milliseconds(4000)}};
};

void expect_piece(const Piece& piece, const at::Tensor& tensor) {
  EXPECT_EQ(piece.data, tensor.data_ptr());
  EXPECT_EQ(piece.bytes, tensor.nbytes());
}

TEST_F(Collectives, AllReduceGivesAndTakesInPlace) {
  at::Tensor x = at::ones({2, 5}, at::kLong);
  const auto before = x._version();
  all_reduce(group, x, {.op = ReduceOp::Max});
  EXPECT_EQ(last().kind, CollectiveKind::AllReduce);
  EXPECT_EQ(last().op, ReduceOp::Max);
  EXPECT_EQ(last().dtype, at::kLong);
  EXPECT_EQ(last().root, -1);
  EXPECT_EQ(last().count, 10);
  ASSERT_EQ(last().give.size(), 1U);
  ASSERT_EQ(last().take.size(), 1U);
  expect_piece(last().give[0], x);
  expect_piece(last().take[0], x);
  EXPECT_EQ(x._version(), before + 1);
}

TEST_F(Collectives, ReduceTakesOnlyAtTheRoot) {
  at::Tensor x = at::ones({4});
  const auto before = x._version();
  reduce(group, x, 2);
  EXPECT_EQ(last().kind, CollectiveKind::Reduce);
  EXPECT_EQ(last().root, 2);
  EXPECT_EQ(last().give.size(), 1U);
  EXPECT_TRUE(last().take.empty());
  EXPECT_EQ(x._version(), before);
  reduce(group, x, 1);
  ASSERT_EQ(last().take.size(), 1U);
  expect_piece(last().take[0], x);
  EXPECT_EQ(x._version(), before + 1);
}

TEST_F(Collectives, ReduceScatterCountsOnePart) {
  at::Tensor output = at::zeros({2});
  const at::Tensor input = at::ones({3, 2});
  reduce_scatter(group, output, input, {.op = ReduceOp::Mean});
  EXPECT_EQ(last().kind, CollectiveKind::ReduceScatter);
  EXPECT_EQ(last().op, ReduceOp::Mean);
  EXPECT_EQ(last().count, 2);
  expect_piece(last().give.at(0), input);
  expect_piece(last().take.at(0), output);
}

TEST_F(Collectives, BroadcastTakesFromTheRoot) {
  at::Tensor x = at::ones({4});
  broadcast(group, x, 2);
  EXPECT_EQ(last().kind, CollectiveKind::Broadcast);
  EXPECT_EQ(last().root, 2);
  EXPECT_TRUE(last().give.empty());
  ASSERT_EQ(last().take.size(), 3U);
  EXPECT_EQ(last().take[0].bytes, 0U);
  EXPECT_EQ(last().take[1].bytes, 0U);
  expect_piece(last().take[2], x);
  broadcast(group, x, 1);  // this rank
  EXPECT_TRUE(last().take.empty());
  expect_piece(last().give.at(0), x);
}

TEST_F(Collectives, AllGatherTakesAPartFromEverybody) {
  at::Tensor output = at::zeros({3, 4}, at::kShort);
  const at::Tensor input = at::ones({4}, at::kShort);
  all_gather(group, output, input);
  EXPECT_EQ(last().kind, CollectiveKind::AllGather);
  EXPECT_EQ(last().count, 4);
  expect_piece(last().give.at(0), input);
  ASSERT_EQ(last().take.size(), 3U);
  for (int k = 0; k < 3; ++k)
    expect_piece(last().take[static_cast<size_t>(k)], output[k]);
}

TEST_F(Collectives, AllToAllGivesAPartToEverybody) {
  at::Tensor output = at::zeros({3, 2});
  const at::Tensor input = at::ones({3, 2});
  all_to_all(group, output, input);
  EXPECT_EQ(last().kind, CollectiveKind::AllToAll);
  EXPECT_EQ(last().count, 2);
  for (int k = 0; k < 3; ++k) {
    expect_piece(last().give.at(static_cast<size_t>(k)), input[k]);
    expect_piece(last().take.at(static_cast<size_t>(k)), output[k]);
  }
}

TEST_F(Collectives, GatherAndScatterUseListsOnlyAtTheRoot) {
  at::Tensor one = at::ones({2});
  std::vector<at::Tensor> list = {at::ones({2}), at::ones({2}), at::ones({2})};
  gather(group, list, one, 1);
  EXPECT_EQ(last().kind, CollectiveKind::Gather);
  expect_piece(last().give.at(0), one);
  for (size_t k = 0; k < 3; ++k)
    expect_piece(last().take.at(k), list[k]);
  gather(group, list, one, 0);  // the list is not looked at here
  EXPECT_TRUE(last().take.empty());
  scatter(group, one, list, 1);
  EXPECT_EQ(last().kind, CollectiveKind::Scatter);
  for (size_t k = 0; k < 3; ++k)
    expect_piece(last().give.at(k), list[k]);
  expect_piece(last().take.at(1), one);
  EXPECT_EQ(last().take.at(0).bytes, 0U);
  scatter(group, one, {}, 2);
  EXPECT_TRUE(last().give.empty());
  expect_piece(last().take.at(2), one);
}

TEST_F(Collectives, BarrierMovesNothing) {
  barrier(group);
  EXPECT_EQ(last().kind, CollectiveKind::Barrier);
  EXPECT_EQ(last().count, 0);
  EXPECT_TRUE(last().give.empty() && last().take.empty());
}

TEST_F(Collectives, SumComplexNumbersAsPairs) {
  at::Tensor z = at::zeros({2, 2}, at::kComplexFloat);
  all_reduce(group, z);
  EXPECT_EQ(last().dtype, at::kFloat);
  EXPECT_EQ(last().count, 8);
  at::Tensor part = at::zeros({1}, at::kComplexFloat);
  reduce_scatter(
      group, part, at::zeros({3}, at::kComplexFloat), {.op = ReduceOp::Mean});
  EXPECT_EQ(last().dtype, at::kFloat);
  EXPECT_EQ(last().count, 2);
  broadcast(group, z, 0);  // only moves
  EXPECT_EQ(last().dtype, at::kComplexFloat);
  EXPECT_EQ(last().count, 4);
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [&] { all_reduce(group, z, {.op = ReduceOp::Product}); }),
      "[comm] expected a reduction that complexfloat has, got product; convert the "
      "tensor "
      "to a dtype that has it");
}

TEST_F(Collectives, HaveTheirOwnTimeoutOrTheGroups) {
  at::Tensor x = at::ones({1});
  all_reduce(group, x);
  EXPECT_EQ(last().allowed, milliseconds(4000));
  all_reduce(group, x, {.timeout = milliseconds(50)});
  EXPECT_EQ(last().allowed, milliseconds(50));
  barrier(group, {.async = true, .timeout = milliseconds(60)}).wait();
  EXPECT_EQ(last().allowed, milliseconds(60));
}

TEST_F(Collectives, WriteBackOnlyWhenTheyWentWell) {
  at::Tensor whole = at::zeros({2, 4});
  engine->on_run = [](const Collective& call) {
    std::fill_n(call.take[0].data, call.take[0].bytes, std::byte{0x40});
    throw PeerError(0, "[comm] rank 0 is gone");
  };
  const at::Tensor part = whole.slice(1, 0, 2);
  EXPECT_THROW(all_reduce(group, part), PeerError);
  const Work work = all_reduce(group, part, {.async = true});
  EXPECT_THROW(work.wait(), PeerError);
  EXPECT_EQ(whole.abs().sum().item<float>(), 0.0F);
}

TEST_F(Collectives, KeepTheTensorsOfAnAsyncCallAlive) {
  c10::weak_intrusive_ptr<c10::TensorImpl> watch = [&] {
    at::Tensor x = at::ones({1000});
    all_reduce(group, x, {.async = true});
    return c10::weak_intrusive_ptr<c10::TensorImpl>(x.getIntrusivePtr());
  }();
  barrier(group);
  EXPECT_TRUE(watch.expired());  // and let go of them afterwards
  EXPECT_EQ(engine->calls.size(), 2U);
}

// ---- refused
// ---------------------------------------------------------------------------

TEST_F(Collectives, RefuseARootOutside) {
  at::Tensor x = at::ones({3});
  const std::vector<std::pair<std::string, std::function<void(int)>>> rooted = {
      {"reduce", [&](int root) { reduce(group, x, root); }},
      {"broadcast", [&](int root) { broadcast(group, x, root); }},
      {"gather", [&](int root) { gather(group, {}, x, root); }},
      {"scatter", [&](int root) { scatter(group, x, {}, root); }}};
  for (const auto& [name, call] : rooted)
    for (const int root : {-1, 3})
      EXPECT_EQ(
          refusal([&] { call(root); }),
          text(
              "[comm] ",
              name,
              ": expected a root from 0 to 2, got ",
              root,
              "; give a rank of the group"));
}

TEST_F(Collectives, RefuseUndefinedTensors) {
  at::Tensor x = at::ones({3}), none;
  const std::vector<at::Tensor> holes = {x, none, x};
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"all_reduce", [&] { all_reduce(group, none); }},
      {"reduce", [&] { reduce(group, none, 0); }},
      {"reduce_scatter", [&] { reduce_scatter(group, none, x); }},
      {"reduce_scatter", [&] { reduce_scatter(group, x, none); }},
      {"broadcast", [&] { broadcast(group, none, 0); }},
      {"all_gather", [&] { all_gather(group, none, x); }},
      {"all_gather", [&] { all_gather(group, x, none); }},
      {"all_to_all", [&] { all_to_all(group, none, x); }},
      {"all_to_all", [&] { all_to_all(group, holes, holes); }},
      {"gather", [&] { gather(group, {}, none, 0); }},
      {"gather", [&] { gather(group, holes, x, 1); }},
      {"scatter", [&] { scatter(group, none, {}, 0); }},
      {"scatter", [&] { scatter(group, x, holes, 1); }}};
  for (const auto& [name, call] : calls)
    EXPECT_EQ(
        refusal(call),
        "[comm] " + name + ": expected a tensor, got an undefined one; give one");
}

TEST_F(Collectives, RefusePartsThatDoNotFit) {
  at::Tensor two = at::ones({2}), seven = at::ones({7});
  EXPECT_EQ(
      refusal([&] { all_gather(group, seven, two); }),
      "[comm] all_gather: expected 3 parts of 2 elements, got 7 elements; resize one "
      "of the two");
  EXPECT_EQ(
      refusal([&] { reduce_scatter(group, two, seven); }),
      "[comm] reduce_scatter: expected 3 parts of 2 elements, got 7 elements; resize "
      "one of the two");
  EXPECT_EQ(
      refusal([&] { all_to_all(group, seven, seven); }),
      "[comm] all_to_all: expected input and output of 3 equal parts, got 7 and 7 "
      "elements; pass lists of tensors for unequal parts");
  EXPECT_EQ(
      refusal([&] { all_to_all(group, at::ones({3}), at::ones({6})); }),
      "[comm] all_to_all: expected input and output of 3 equal parts, got 6 and 3 "
      "elements; pass lists of tensors for unequal parts");
}

TEST_F(Collectives, RefuseTwoDtypes) {
  at::Tensor f = at::ones({3}), i = at::ones({3}, at::kInt), one = at::ones({1});
  const auto wanted = [](const std::string& call, const std::string& dtypes) {
    return "[comm] " + call + ": expected input and output of one dtype, got " +
           dtypes + "; convert one of them";
  };
  EXPECT_EQ(
      refusal([&] { all_gather(group, i, one); }),
      wanted("all_gather", "int32 and float32"));
  EXPECT_EQ(
      refusal([&] { reduce_scatter(group, one, i); }),
      wanted("reduce_scatter", "int32 and float32"));
  EXPECT_EQ(
      refusal([&] { all_to_all(group, f, i); }),
      wanted("all_to_all", "int32 and float32"));
  EXPECT_EQ(
      refusal([&] {
        gather(group, {f, f, i}, f, 1);
      }),
      wanted("gather", "int32 and float32"));
  EXPECT_EQ(
      refusal([&] {
        scatter(group, f, {f, i, f}, 1);
      }),
      wanted("scatter", "int32 and float32"));
}

TEST_F(Collectives, RefuseListsThatDoNotFit) {
  at::Tensor two = at::ones({2}), three = at::ones({3});
  EXPECT_EQ(
      refusal([&] { gather(group, {two}, two, 1); }),
      "[comm] gather: expected 3 outputs at the root, one a rank, got 1; give one for "
      "each");
  EXPECT_EQ(
      refusal([&] {
        scatter(group, two, {two, two, two, two}, 1);
      }),
      "[comm] scatter: expected 3 inputs at the root, one a rank, got 4; give one for "
      "each");
  EXPECT_EQ(
      refusal([&] {
        gather(group, {two, three, two}, two, 1);
      }),
      "[comm] gather: expected outputs of 2 elements each, got one of 3; pad them, or "
      "use "
      "all_to_all for 3 different sizes");
  EXPECT_EQ(
      refusal([&] {
        scatter(group, two, {two, two, three}, 1);
      }),
      "[comm] scatter: expected inputs of 2 elements each, got one of 3; pad them, or "
      "use "
      "all_to_all for 3 different sizes");
}

TEST_F(Collectives, RefuseOpsThatTheDtypeHasNot) {
  at::Tensor one = at::ones({1}, at::kLong), all = at::ones({3}, at::kLong);
  const std::string wanted =
      "[comm] expected a reduction that int64 has, got mean; take the sum and divide, "
      "or "
      "convert to a float dtype";
  const ReduceOptions mean{.op = ReduceOp::Mean};
  EXPECT_EQ(refusal([&] { all_reduce(group, one, mean); }), wanted);
  EXPECT_EQ(refusal([&] { reduce(group, one, 0, mean); }), wanted);
  EXPECT_EQ(refusal([&] { reduce_scatter(group, one, all, mean); }), wanted);
}

TEST_F(Collectives, RefuseExpandedOutputs) {
  const at::Tensor wide = at::ones({1}).expand({3});
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { all_reduce(group, wide); },
           [&] { broadcast(group, wide, 1); },
           [&] { all_gather(group, wide, at::ones({1})); }})
    EXPECT_TRUE(testing::contains(refusal(call), "got an expanded one"));
}

}  // namespace
}  // namespace trireme::comm
