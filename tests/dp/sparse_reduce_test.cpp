#include "trireme/dp/sparse_reduce.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using comm::ReduceOp;
using testing::Backend;
using testing::run_world;
using testing::same;

at::Tensor rows(const std::vector<int64_t>& indices, double value) {
  const auto count = static_cast<int64_t>(indices.size());
  return at::sparse_coo_tensor(
      at::tensor(indices, at::kLong).view({1, count}),
      at::full({count, 2}, value),
      {5, 2});
}

TEST(SparseReduceRanks, TheUnionOfAllRows) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 3, [](const comm::Group& group) {
      const std::vector<int64_t> mine[] = {{4, 0, 0}, {0}, {3, 4}};
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean}) {
        const at::Tensor sum =
            reduce_sparse(group, {rows(mine[group.rank()], 3)}, {5, 2}, at::kFloat, op)
                .rows;
        EXPECT_TRUE(sum.is_coalesced());
        EXPECT_TRUE(
            same(sum._indices(), at::tensor({0, 3, 4}, at::kLong).view({1, 3})));
        const at::Tensor wanted =
            at::tensor({9.0F, 3.0F, 6.0F}).view({3, 1}).expand({3, 2});
        EXPECT_TRUE(same(sum._values(), op == ReduceOp::Sum ? wanted : wanted / 3));
      }
    });
}

TEST(SparseReduceRanks, RanksWithNothingAndWithEverything) {
  run_world(Backend::Local, 3, [](const comm::Group& group) {
    at::Tensor mine;
    if (group.rank() == 1)
      mine = rows({}, 0);
    if (group.rank() == 2)
      mine = at::ones({5, 2});  // dense all the same
    const SparseGradient sum =
        reduce_sparse(group, {mine}, {5, 2}, at::kFloat, ReduceOp::Sum);
    EXPECT_TRUE(same(sum.rows.to_dense(), at::ones({5, 2})));
    EXPECT_FALSE(sum.used);
    for (const int user : {3, 1}) {
      const SparseGradient none = reduce_sparse(
          group, {.used = group.rank() == user}, {5, 2}, at::kFloat, ReduceOp::Mean);
      EXPECT_EQ(none.rows._nnz(), 0);
      EXPECT_TRUE(same(none.rows.to_dense(), at::zeros({5, 2})));
      EXPECT_EQ(none.used, user == 1) << "one is enough";
    }
  });
}

// 0.1 + 0.2 + 0.3 is another number in another order.
TEST(SparseReduceRanks, SumsAreInTheOrderOfTheRanks) {
  run_world(Backend::Local, 3, [](const comm::Group& group) {
    const float values[] = {1e8F, -1e8F, 1};
    const at::Tensor sum =
        reduce_sparse(
            group, {rows({2}, values[group.rank()])}, {5, 2}, at::kFloat, ReduceOp::Sum)
            .rows;
    EXPECT_EQ(sum._values()[0][0].item<float>(), 1);
  });
}

// Rows that are listed twice are added up in the wider dtype too.
TEST(SparseReduceRanks, InAWiderDtype) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor mine = at::sparse_coo_tensor(
        at::tensor({1, 1}, at::kLong).view({1, 2}),
        at::tensor({256.0F, 1.0F}).view({2, 1}).expand({2, 2}).to(at::kBFloat16),
        {5, 2});
    const at::Tensor sum = reduce_sparse(
                               group,
                               {group.rank() == 0 ? mine : at::Tensor()},
                               {5, 2},
                               at::kFloat,
                               ReduceOp::Sum)
                               .rows;
    EXPECT_TRUE(same(sum._values(), at::full({1, 2}, 257.0F)));
  });
}

}  // namespace
}  // namespace trireme::dp
