// Conformance: all_reduce, reduce, reduce_scatter.
#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::testing {
namespace {

using comm::Group;
using comm::ReduceOp;

// Element counts on both sides of every change of algorithm: in the line, staged,
// streamed.
const std::vector<int64_t> kReductionCounts = {
    1, 11, 12, 13, 1000, 16384, 16385, 300001, 1500003};

// Small whole numbers: sums are exact, whatever the order.
at::Tensor ramp(int64_t count, int rank, at::ScalarType dtype = at::kFloat) {
  return at::arange(count, at::kLong).remainder(7).add(rank + 1).to(dtype);
}

// What all ranks' values become, computed here one rank after the other.
at::Tensor expected(
    const Group& world, const std::function<at::Tensor(int)>& of, ReduceOp op) {
  at::Tensor sum = of(0).clone();
  for (int k = 1; k < world.size(); ++k) {
    const at::Tensor next = of(k);
    switch (op) {
      case ReduceOp::Sum:
      case ReduceOp::Mean:
        sum = sum.add(next);
        break;
      case ReduceOp::Min:
        sum = at::minimum(sum, next);
        break;
      case ReduceOp::Max:
        sum = at::maximum(sum, next);
        break;
      case ReduceOp::Product:
        sum = sum.mul(next);
        break;
      case ReduceOp::BitAnd:
        sum = sum.bitwise_and(next);
        break;
      case ReduceOp::BitOr:
        sum = sum.bitwise_or(next);
        break;
    }
  }
  return op == ReduceOp::Mean ? sum.div(world.size()) : sum;
}

void all_reduce_sums_every_size(const Group& world) {
  for (const int64_t count : kReductionCounts) {
    at::Tensor x = ramp(count, world.rank());
    comm::all_reduce(world, x);
    EXPECT_TRUE(same(
        x,
        expected(
            world, [&](int k) { return ramp(count, k); }, ReduceOp::Sum)))
        << "rank " << world.rank() << ", count " << count;
  }
}

void all_reduce_knows_every_op_of_every_dtype(const Group& world) {
  const std::vector<ReduceOp> bits = {ReduceOp::BitAnd, ReduceOp::BitOr};
  const std::vector<ReduceOp> common = {
      ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product};
  const auto check = [&](at::ScalarType dtype, ReduceOp op) {
    for (const int64_t count : {5, 77, 20011}) {
      const auto of = [&](int k) {
        return dtype == at::kBool ? at::arange(count).remainder(k + 2).eq(0)
                                  : ramp(count, k % 3, dtype);
      };
      at::Tensor x = of(world.rank()).clone();
      comm::all_reduce(world, x, {.op = op});
      EXPECT_TRUE(same(x, expected(world, of, op)))
          << dtype << " " << comm::to_string(op) << " rank " << world.rank();
    }
  };
  for (const auto dtype : {at::kFloat, at::kDouble})
    for (const ReduceOp op :
         {ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product})
      check(dtype, op);
  for (const auto dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
    for (const ReduceOp op : common)
      check(dtype, op);
    for (const ReduceOp op : bits)
      check(dtype, op);
  }
  for (const ReduceOp op :
       {ReduceOp::Min, ReduceOp::Max, ReduceOp::BitAnd, ReduceOp::BitOr})
    check(at::kBool, op);
}

// A sum in the order of the ranks, in float32, rounded once: bit for bit, on all ranks.
void all_reduce_sums_in_rank_order(const Group& world) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    for (const int64_t count : {7, 4097, 400003}) {
      const auto of = [&](int k) {
        return at::arange(count, at::kDouble).mul(0.37).add(k * 1.7).sin().to(dtype);
      };
      const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
      at::Tensor sum = of(0).to(wide);
      for (int k = 1; k < world.size(); ++k)
        sum = sum.add(of(k).to(wide));
      at::Tensor x = of(world.rank());
      comm::all_reduce(world, x);
      EXPECT_TRUE(same(x, sum.to(dtype))) << dtype << " rank " << world.rank();
      at::Tensor mean = of(world.rank());
      comm::all_reduce(world, mean, {.op = ReduceOp::Mean});
      EXPECT_TRUE(same(mean, sum.div(world.size()).to(dtype))) << dtype << " mean";
    }
}

void all_reduce_takes_views_and_strides(const Group& world) {
  const auto of = [](int k) { return ramp(60, k).reshape({6, 10}); };
  const at::Tensor sum = expected(world, of, ReduceOp::Sum);
  at::Tensor transposed = of(world.rank()).t().contiguous().t();
  comm::all_reduce(world, transposed);
  EXPECT_TRUE(same(transposed, sum));
  // A view of a part must leave the rest alone.
  at::Tensor whole = of(world.rank());
  comm::all_reduce(world, whole.slice(1, 2, 5));
  EXPECT_TRUE(same(whole.slice(1, 2, 5), sum.slice(1, 2, 5)));
  EXPECT_TRUE(same(whole.slice(1, 5), of(world.rank()).slice(1, 5)));
  at::Tensor empty = at::empty({0, 3});
  comm::all_reduce(world, empty);
  EXPECT_EQ(empty.numel(), 0);
  at::Tensor scalar = at::ones({});
  comm::all_reduce(world, scalar);
  EXPECT_EQ(scalar.item<float>(), static_cast<float>(world.size()));
}

void all_reduce_sums_complex_numbers(const Group& world) {
  at::Tensor x = at::complex(ramp(33, world.rank()), ramp(33, 2 * world.rank()));
  const at::Tensor sum = expected(
      world,
      [](int k) { return at::complex(ramp(33, k), ramp(33, 2 * k)); },
      ReduceOp::Sum);
  at::Tensor lazy = at::conj(x.clone());
  comm::all_reduce(world, x);
  EXPECT_TRUE(same(x, sum));
  comm::all_reduce(world, lazy);
  EXPECT_TRUE(same(lazy.resolve_conj(), at::conj(sum).resolve_conj()));
}

// Memory that peers can read in place, on all ranks, on some, and at an offset.
void all_reduce_works_in_shared_memory(const Group& world) {
  const int64_t count = 300001;
  const at::Tensor sum = expected(
      world, [&](int k) { return ramp(count, k); }, ReduceOp::Sum);
  at::Tensor shared = world.allocate({count + 5}, at::kFloat).slice(0, 5);
  for (int round = 0; round < 3; ++round) {
    shared.copy_(ramp(count, world.rank()));
    comm::all_reduce(world, shared);
    EXPECT_TRUE(same(shared, sum)) << "rank " << world.rank();
  }
  at::Tensor mixed = world.rank() == 0 ? shared : at::empty({count});
  mixed.copy_(ramp(count, world.rank()));
  comm::all_reduce(world, mixed);
  EXPECT_TRUE(same(mixed, sum));
}

void reduce_writes_only_at_the_root(const Group& world) {
  for (const int64_t count : {3, 500, 300001})
    for (int root = 0; root < world.size(); ++root)
      for (const bool shared : {false, true}) {
        at::Tensor x =
            shared ? world.allocate({count}, at::kFloat) : at::empty({count});
        x.copy_(ramp(count, world.rank()));
        comm::reduce(world, x, root, {.op = ReduceOp::Max});
        const auto of = [&](int k) { return ramp(count, k); };
        EXPECT_TRUE(same(
            x,
            world.rank() == root ? expected(world, of, ReduceOp::Max)
                                 : ramp(count, world.rank())))
            << "rank " << world.rank() << " root " << root << " count " << count;
      }
}

void reduce_scatter_gives_every_rank_its_part(const Group& world) {
  for (const int64_t count : {1, 13, 5000, 200003})
    for (const bool shared : {false, true}) {
      const int64_t all = count * world.size();
      at::Tensor input = shared ? world.allocate({all}, at::kFloat) : at::empty({all});
      at::Tensor output =
          shared ? world.allocate({count}, at::kFloat) : at::empty({count});
      input.copy_(ramp(all, world.rank()));
      comm::reduce_scatter(world, output, input);
      const at::Tensor sum = expected(
          world, [&](int k) { return ramp(all, k); }, ReduceOp::Sum);
      EXPECT_TRUE(
          same(output, sum.slice(0, count * world.rank(), count * (world.rank() + 1))))
          << "rank " << world.rank() << " count " << count;
      EXPECT_TRUE(same(input, ramp(all, world.rank())));
    }
}

// Alternating sizes and kinds would show a staging place that is used again too early.
void mixed_sizes_do_not_disturb_one_another(const Group& world) {
  for (int round = 0; round < 40; ++round) {
    const int64_t count = kReductionCounts[static_cast<size_t>(round * 5 % 8)];
    at::Tensor x = ramp(count, world.rank() + round);
    comm::all_reduce(world, x);
    EXPECT_TRUE(same(
        x,
        expected(
            world, [&](int k) { return ramp(count, k + round); }, ReduceOp::Sum)))
        << "round " << round;
    at::Tensor y = ramp(count % 5000 + 1, round);
    comm::broadcast(world, y, round % world.size());
    EXPECT_TRUE(same(y, ramp(count % 5000 + 1, round)));
  }
}

void autograd_notices_the_change(const Group& world) {
  at::Tensor x = at::ones({4});
  const auto before = x._version();
  comm::all_reduce(world, x);
  EXPECT_GT(x._version(), before);
  at::Tensor leaf = at::ones({4}).set_requires_grad(true);
  comm::all_reduce(world, leaf);
  EXPECT_TRUE(leaf.requires_grad() && leaf.is_leaf());
}

}  // namespace

std::vector<ConformanceCase> reduction_cases() {
  return {
      {"AllReduceSumsEverySize", all_reduce_sums_every_size},
      {"AllReduceKnowsEveryOpOfEveryDtype", all_reduce_knows_every_op_of_every_dtype},
      {"AllReduceSumsInRankOrder", all_reduce_sums_in_rank_order},
      {"AllReduceTakesViewsAndStrides", all_reduce_takes_views_and_strides},
      {"AllReduceSumsComplexNumbers", all_reduce_sums_complex_numbers},
      {"AllReduceWorksInSharedMemory", all_reduce_works_in_shared_memory},
      {"ReduceWritesOnlyAtTheRoot", reduce_writes_only_at_the_root},
      {"ReduceScatterGivesEveryRankItsPart", reduce_scatter_gives_every_rank_its_part},
      {"MixedSizesDoNotDisturbOneAnother", mixed_sizes_do_not_disturb_one_another},
      {"AutogradNoticesTheChange", autograd_notices_the_change}};
}

}  // namespace trireme::testing
