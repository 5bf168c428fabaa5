#include "trireme/dp/flat_gradients.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::same;

/// Runs with the flat gradients of these tensors, all in one bucket a dtype.
void with_flat(
    const std::vector<at::Tensor>& tensors,
    const std::function<void(const FlatGradients&)>& body,
    bool sparse = false) {
  testing::run_world(testing::Backend::Local, 1, [&](const comm::Group& group) {
    std::vector<Parameter> parameters;
    std::vector<ParameterSize> sizes;
    for (const at::Tensor& tensor : tensors) {
      parameters.push_back({"p", tensor, sparse});
      sizes.push_back({tensor.numel(), tensor.scalar_type(), sparse});
    }
    const Buckets buckets =
        assign_buckets(sizes, reversed_order(sizes.size()), {{1 << 20}});
    body(FlatGradients(
        lay_out(sizes, buckets, {.first = 2, .last = 1}), parameters, group));
  });
}

TEST(FlatGradientsRanks, StridesAreThoseOfTheParameter) {
  const at::Tensor plain = at::rand({2, 3});
  const at::Tensor turned = at::rand({3, 2}).t();
  const at::Tensor last =
      at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor gaps = at::rand({4, 6}).narrow(1, 0, 3);
  const at::Tensor scalar = at::rand({});
  with_flat({plain, turned, last, gaps, scalar}, [&](const FlatGradients& flat) {
    EXPECT_EQ(flat.view(0).strides(), plain.strides());
    EXPECT_EQ(flat.view(1).strides(), turned.strides());
    EXPECT_TRUE(flat.view(2).is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(flat.view(3).is_contiguous());
    const at::Tensor all[] = {plain, turned, last, gaps, scalar};
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(same(flat.view(i), at::zeros_like(flat.view(i))));
      flat.put(i, all[i]);
    }
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(same(flat.view(i), all[i]));
      EXPECT_TRUE(flat.view(i).is_alias_of(flat.bucket(0)));
      const auto line = reinterpret_cast<uintptr_t>(flat.view(i).const_data_ptr());
      EXPECT_EQ(line % 64, 0);
    }
  });
}

TEST(FlatGradientsRanks, HoldsItsOwnViewsOnly) {
  with_flat({at::rand({2, 3}), at::rand({0, 3})}, [](const FlatGradients& flat) {
    EXPECT_TRUE(flat.holds(0, flat.view(0)));
    EXPECT_TRUE(flat.holds(0, flat.view(0).detach()));
    EXPECT_FALSE(flat.holds(0, flat.view(0).clone()));
    EXPECT_FALSE(flat.holds(0, flat.view(0).view({3, 2})));
    EXPECT_FALSE(flat.holds(0, at::zeros({2, 3}).to_sparse()));
    EXPECT_TRUE(flat.holds(1, flat.view(1)));
    flat.put(1, at::zeros({0, 3}));
    flat.clear(1);
  });
}

TEST(FlatGradientsRanks, PutsWhateverShapeOfMemory) {
  with_flat({at::zeros({2, 3})}, [](const FlatGradients& flat) {
    const at::Tensor values = at::rand({2, 3});
    for (const at::Tensor& gradient :
         {values,
          values.t().contiguous().t(),
          at::_neg_view(-values),
          values.clone().requires_grad_()}) {
      flat.clear(0);
      flat.put(0, gradient);
      EXPECT_TRUE(same(flat.view(0), values));
      EXPECT_FALSE(flat.view(0).requires_grad());
    }
    flat.put(0, at::ones({1, 3}).expand({2, 3}));
    EXPECT_TRUE(same(flat.view(0), at::ones({2, 3})));
    flat.put(0, values.to_sparse());
    EXPECT_TRUE(same(flat.view(0), values));
    EXPECT_THROW(flat.put(0, at::zeros({3, 2})), InvalidArgument);
    flat.clear(0);
    EXPECT_TRUE(same(flat.view(0), at::zeros({2, 3})));
  });
}

TEST(FlatGradientsRanks, RidersLieBehindTheGradients) {
  with_flat(
      {at::zeros({3}), at::zeros({2}, at::kDouble)}, [](const FlatGradients& flat) {
        ASSERT_EQ(flat.buckets(), 2);
        EXPECT_EQ(flat.riders(0).numel(), 2);
        EXPECT_EQ(flat.riders(1).numel(), 1);
        flat.riders(0).fill_(5);
        EXPECT_TRUE(same(flat.view(1), at::zeros({2}, at::kDouble)));
        EXPECT_EQ(flat.bucket(0).sum().item<double>(), 10);
      });
}

TEST(FlatGradientsRanks, NothingButEmptyAndSparse) {
  with_flat({at::zeros({0})}, [](const FlatGradients& flat) {
    EXPECT_EQ(flat.view(0).numel(), 0);
    EXPECT_EQ(flat.riders(0).numel(), 3);
  });
  with_flat(
      {at::zeros({4})},
      [](const FlatGradients& flat) {
        EXPECT_FALSE(flat.view(0).defined());
        EXPECT_FALSE(flat.bucket(0).defined());
        flat.clear(0);
      },
      true);
}

}  // namespace
}  // namespace trireme::dp
