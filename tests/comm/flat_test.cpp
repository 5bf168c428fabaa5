// Tensors as runs of bytes: when they are copied, and how the result comes back.
#include "trireme/comm/flat.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fake_engine.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::message_of;
using testing::same;

Group three() {
  return Group(std::make_shared<FakeEngine>(1, 3));
}

// Adds one to every float of a piece, as an engine would write.
void add_one(const Piece& piece) {
  auto* values = reinterpret_cast<float*>(piece.data);
  for (size_t i = 0; i < piece.bytes / sizeof(float); ++i)
    values[i] += 1;
}

TEST(Flat, SharesTheMemoryOfAContiguousTensor) {
  const at::Tensor x = at::arange(6.0F).reshape({2, 3});
  for (const Flat& flat :
       {Flat::input(three(), "call", x), Flat::output(three(), "call", x)}) {
    EXPECT_EQ(flat.piece().data, x.data_ptr());
    EXPECT_EQ(flat.piece().bytes, 24U);
    EXPECT_EQ(flat.count(), 6);
    EXPECT_EQ(flat.dtype(), at::kFloat);
    EXPECT_TRUE(flat.tensor().is_same(x));
  }
  const at::Tensor part = x.slice(0, 1);
  EXPECT_EQ(Flat::input(three(), "call", part).piece().data, part.data_ptr());
}

TEST(Flat, CopiesWhatIsNotContiguous) {
  const at::Tensor x = at::arange(6.0F).reshape({2, 3}).t();
  const Flat flat = Flat::input(three(), "call", x);
  EXPECT_NE(flat.piece().data, x.data_ptr());
  EXPECT_EQ(flat.count(), 6);
  const auto* values = reinterpret_cast<const float*>(flat.piece().data);
  EXPECT_EQ(
      std::vector<float>(values, values + 6), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Flat, WritesBackOnlyWhenItIsFinished) {
  at::Tensor whole = at::zeros({3, 4});
  const Flat flat = Flat::output(three(), "call", whole.slice(1, 1, 3));
  add_one(flat.piece());
  EXPECT_TRUE(same(whole, at::zeros({3, 4})));
  flat.finish();
  EXPECT_TRUE(same(whole.slice(1, 1, 3), at::ones({3, 2})));
  EXPECT_EQ(whole.sum().item<float>(), 6.0F);
}

TEST(Flat, TellsAutogradOfTheChange) {
  for (const bool contiguous : {true, false}) {
    at::Tensor x = contiguous ? at::zeros({2, 3}) : at::zeros({3, 2}).t();
    const auto before = x._version();
    const Flat flat = Flat::output(three(), "call", x);
    EXPECT_EQ(x._version(), before);
    flat.finish();
    EXPECT_EQ(x._version(), before + 1) << contiguous;
  }
}

TEST(Flat, WritesIntoLeavesThatRequireGrad) {
  at::Tensor leaf = at::zeros({2, 3}).t().set_requires_grad(true);
  const Flat flat = Flat::output(three(), "call", leaf);
  add_one(flat.piece());
  flat.finish();
  EXPECT_TRUE(leaf.is_leaf() && leaf.requires_grad());
  EXPECT_TRUE(same(leaf, at::ones({3, 2})));
}

TEST(Flat, TakesTensorsOfInferenceMode) {
  at::Tensor x, strided;
  {
    const c10::InferenceMode guard;
    x = at::zeros({2});
    strided = at::zeros({2, 2}).t();
  }
  const c10::InferenceMode guard;
  for (const at::Tensor& one : {x, strided}) {
    const Flat flat = Flat::output(three(), "call", one);
    add_one(flat.piece());
    flat.finish();
    EXPECT_TRUE(same(one, at::ones_like(one)));
  }
}

TEST(Flat, ResolvesConjugatesAndNegatives) {
  at::Tensor z = at::complex(at::ones({3}), at::full({3}, 2.0F));
  const at::Tensor conj = at::conj(z);
  const Flat flat = Flat::output(three(), "call", conj);
  add_one(flat.piece());  // 1 - 2i becomes 2 - i
  flat.finish();
  EXPECT_TRUE(same(z, at::complex(at::full({3}, 2.0F), at::ones({3}))));
  const Flat negative = Flat::input(three(), "call", at::_neg_view(at::ones({2})));
  EXPECT_EQ(*reinterpret_cast<const float*>(negative.piece().data), -1.0F);
}

TEST(Flat, SeesComplexNumbersAsPairs) {
  const at::Tensor z = at::zeros({3}, at::kComplexDouble);
  Flat flat = Flat::input(three(), "call", z);
  EXPECT_EQ(flat.dtype(), at::kComplexDouble);
  EXPECT_EQ(flat.count(), 3);
  flat.view_as_real();
  EXPECT_EQ(flat.dtype(), at::kDouble);
  EXPECT_EQ(flat.count(), 6);
  EXPECT_EQ(flat.piece().bytes, 48U);
  Flat real = Flat::input(three(), "call", at::zeros({3}));
  real.view_as_real();
  EXPECT_EQ(real.dtype(), at::kFloat);
  EXPECT_EQ(real.count(), 3);
}

TEST(Flat, CutsEqualParts) {
  const at::Tensor x = at::zeros({3, 2}, at::kShort);
  const Flat flat = Flat::input(three(), "call", x);
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(flat.part(k, 3).data, flat.piece().data + 4 * k);
    EXPECT_EQ(flat.part(k, 3).bytes, 4U);
  }
}

TEST(Flat, TakesScalarsAndNothing) {
  EXPECT_EQ(Flat::output(three(), "call", at::zeros({})).count(), 1);
  const at::Tensor none = at::empty({0, 4});
  const Flat flat = Flat::output(three(), "call", none);
  EXPECT_EQ(flat.count(), 0);
  EXPECT_EQ(flat.piece().bytes, 0U);
  flat.finish();
}

TEST(Flat, TakesAnExpandedTensorOnlyToRead) {
  const at::Tensor wide = at::ones({1}).expand({4});
  EXPECT_EQ(Flat::input(three(), "call", wide).count(), 4);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { Flat::output(three(), "all_reduce", wide); }),
      "[comm] all_reduce: expected a tensor with memory of its own for every element, "
      "got "
      "an expanded one; call contiguous() first");
}

TEST(Flat, RefusesWhatIsNoDenseTensorOfTheCpu) {
  const auto refused = [](const at::Tensor& tensor) {
    return message_of<InvalidArgument>([&] { Flat::input(three(), "gather", tensor); });
  };
  EXPECT_EQ(
      refused(at::Tensor()),
      "[comm] gather: expected a tensor, got an undefined one; give one");
  EXPECT_EQ(
      refused(at::ones({3}).to_sparse()),
      "[comm] gather: expected a dense tensor, got a sparse one; convert it, or send "
      "its "
      "indices and values");
  EXPECT_EQ(
      refused(at::empty({3}, at::kMeta)),
      "[comm] expected tensors on the CPU, got meta; move them there first");
}

TEST(Flat, ChecksTheRoot) {
  check_root(three(), "reduce", 0);
  check_root(three(), "reduce", 2);
  for (const int root : {-1, 3})
    EXPECT_EQ(
        message_of<InvalidArgument>([&] { check_root(three(), "reduce", root); }),
        text(
            "[comm] reduce: expected a root from 0 to 2, got ",
            root,
            "; give a rank of the group"));
}

TEST(Flat, ChecksTheDtypes) {
  const Flat a = Flat::input(three(), "x", at::ones({1}));
  const Flat b = Flat::input(three(), "x", at::ones({1}, at::kLong));
  check_same_dtype("x", a, a);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { check_same_dtype("scatter", a, b); }),
      "[comm] scatter: expected input and output of one dtype, got float32 and int64; "
      "convert one of them");
}

}  // namespace
}  // namespace trireme::comm
