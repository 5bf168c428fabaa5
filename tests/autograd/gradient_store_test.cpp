#include "trireme/autograd/gradient_store.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

/// What holds for every store.
void check_store(GradientStore& store) {
  const c10::AutoGradMode grad_mode(false);
  const at::Tensor w = at::ones({2, 3}), other = at::ones({2, 3});
  EXPECT_FALSE(store.get(w).defined());
  store.accumulate(w, at::ones({2, 3}), 1);
  store.accumulate(w, at::ones({2, 3}), 1);
  EXPECT_TRUE(testing::same(store.get(w), at::full({2, 3}, 2.0)));
  EXPECT_FALSE(store.get(other).defined());
  store.set(w, at::full({2, 3}, 7.0));
  store.accumulate(w, at::eye(3).narrow(0, 0, 2).to_sparse(), 1);
  EXPECT_TRUE(
      testing::same(store.get(w), at::full({2, 3}, 7.0) + at::eye(3).narrow(0, 0, 2)));
  store.set(w, at::Tensor());
  EXPECT_FALSE(store.get(w).defined());
}

TEST(GradField, KeepsGradientsWhereTorchDoes) {
  check_store(grad_field());
  EXPECT_TRUE(grad_field().is_grad_field());
  const at::Tensor w = at::ones({3});
  grad_field().set(w, at::ones({3}));
  EXPECT_TRUE(testing::same(w.grad(), at::ones({3})));
}

TEST(GradientMap, KeepsGradientsApart) {
  GradientMap store;
  check_store(store);
  EXPECT_FALSE(store.is_grad_field());
  const at::Tensor w = at::ones({3});
  store.set(w, at::ones({3}));
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(store.size(), 1U);
  store.clear();
  EXPECT_EQ(store.size(), 0U);
}

TEST(GradientMap, HoldsTheLeaf) {
  GradientMap store;
  const c10::AutoGradMode grad_mode(false);
  for (int i = 0; i < 100;
       ++i)  // a new leaf at an old place would find an old gradient
    store.accumulate(at::ones({3}), at::ones({3}), 1);
  EXPECT_EQ(store.size(), 100U);
}

TEST(GradientStore, TakesOverWhatNobodyElseHolds) {
  const c10::AutoGradMode grad_mode(false);
  GradientMap store;
  const at::Tensor w = at::ones({3}), held = at::ones({3});
  at::Tensor gradient = at::ones({3});
  const void* memory = gradient.data_ptr();
  store.accumulate(w, gradient, 1);
  EXPECT_EQ(store.get(w).data_ptr(), memory);
  store.set(w, at::Tensor());
  const at::Tensor second = held;
  store.accumulate(w, held, 1);
  EXPECT_NE(store.get(w).data_ptr(), held.data_ptr());
}

// The rest of that memory may be a gradient on its way to another stage.
TEST(GradientStore, DoesNotTakeOverMemoryThatOthersSee) {
  const c10::AutoGradMode grad_mode(false);
  const at::Tensor leaf = at::zeros({2}).set_requires_grad(true);
  const at::Tensor whole = at::ones({1, 2});
  GradientMap map;
  for (GradientStore* store : {&grad_field(), static_cast<GradientStore*>(&map)}) {
    store->accumulate(leaf, whole.select(0, 0), 1);
    store->accumulate(leaf, at::ones({2}), 1);
    EXPECT_TRUE(at::equal(store->get(leaf), at::full({2}, 2.0)));
    EXPECT_TRUE(at::equal(whole, at::ones({1, 2})));
  }
}

}  // namespace
}  // namespace trireme::autograd
