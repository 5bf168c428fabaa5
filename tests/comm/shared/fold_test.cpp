// One host's part of a reduction over several.
#include <cstring>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/comm/reduce_kernel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

at::Tensor given_by(int rank, int64_t count) {
  return at::arange(count, at::kFloat) * 0.37 + 1.1 * rank + 0.013;
}

// The ranks of a world are first one host, then another.
void fold_twice(const Group& world, int64_t count) {
  const int ranks = world.size();
  at::Tensor partial = at::zeros({count}), result = at::zeros({count}, at::kHalf);
  for (const int host : {0, 1}) {
    at::Tensor mine = given_by(world.rank() + host * ranks, count).to(at::kHalf);
    const FoldStep step{
        .before = host == 0 || world.rank() != 0
                      ? nullptr
                      : static_cast<const std::byte*>(partial.data_ptr()),
        .ranks = host == 0 ? 0 : 2 * ranks};
    at::Tensor& out = host == 0 ? partial : result;
    const Piece give{static_cast<std::byte*>(mine.data_ptr()), mine.nbytes()};
    const Piece take{static_cast<std::byte*>(out.data_ptr()), out.nbytes()};
    world.engine().run(
        {.kind = CollectiveKind::Reduce,
         .op = ReduceOp::Mean,
         .dtype = c10::ScalarType::Half,
         .root = 0,
         .count = count,
         .give = {&give, 1},
         .take = {&take, 1},
         .fold = &step},
        Deadline::after(std::chrono::seconds(30)));
  }
  if (world.rank() != 0)
    return;
  at::Tensor sum = given_by(0, count).to(at::kHalf).to(at::kFloat);
  for (int rank = 1; rank < 2 * ranks; ++rank)
    sum += given_by(rank, count).to(at::kHalf).to(at::kFloat);
  const at::Tensor expected = (sum / (2 * ranks)).to(at::kHalf);
  EXPECT_TRUE(testing::same(result, expected)) << ranks << " ranks, " << count;
}

TEST(FoldRanks, AddsToWhatCameBefore) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::ShmThreads})
    for (const int ranks : {1, 2, 3})
      testing::run_world(backend, ranks, [](const Group& world) {
        for (const int64_t count : {1, 9, 1000, 200000, 3000000})
          fold_twice(world, count);
      });
}

TEST(FoldRanks, HasTheBitsOfAllAtOnceForEveryInstructionSet) {
  const at::Tensor a = given_by(0, 5003).to(at::kBFloat16);
  const at::Tensor b = given_by(1, 5003).to(at::kBFloat16);
  const at::Tensor c = given_by(2, 5003).to(at::kBFloat16);
  const auto bytes = [](const at::Tensor& t) {
    return static_cast<std::byte*>(t.data_ptr());
  };
  for (const Isa isa : {Isa::Baseline, Isa::Avx2, Isa::Avx512}) {
    if (isa > best_isa())
      continue;
    const ReduceKernels kernels =
        reduce_kernels_of(isa, ReduceOp::Mean, c10::ScalarType::BFloat16);
    at::Tensor whole = at::empty_like(a), folded = at::empty_like(a);
    at::Tensor partial = at::empty({5003});
    const std::byte* all[] = {bytes(a), bytes(b), bytes(c)};
    kernels.reduce(bytes(whole), all, 3, 5003);
    kernels.fold(bytes(partial), {}, all, 1, 5003);
    kernels.fold(bytes(partial), {.before = bytes(partial)}, all + 1, 1, 5003);
    kernels.fold(
        bytes(folded), {.before = bytes(partial), .ranks = 3}, all + 2, 1, 5003);
    EXPECT_TRUE(testing::same(whole, folded)) << to_string(isa);
    // Nothing is left to add: only the end.
    at::Tensor ended = at::empty_like(a);
    kernels.fold(bytes(partial), {.before = bytes(partial)}, all + 2, 1, 5003);
    kernels.fold(
        bytes(ended), {.before = bytes(partial), .ranks = 3}, nullptr, 0, 5003);
    EXPECT_TRUE(testing::same(whole, ended)) << to_string(isa);
  }
}

}  // namespace
}  // namespace trireme::comm
