// Data parallelism over MPI; part of the program that mpirun starts.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../comm/mpi/mpi_test_world.h"
#include "../dp/small_net.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"

namespace trireme::dp {
namespace {

void equals_one_process(const comm::Group& group, const DataParallelOptions& options) {
  DataParallel model(small_net(), group, options);
  auto whole = small_net();
  for (int step = 0; step < 4; ++step) {
    {
      const auto guard = model.no_sync();
      model(exact_batch(2, group.rank())).sum().backward();
    }
    model(exact_batch(2, group.rank() + 3)).sum().backward();
    std::vector<at::Tensor> rows;
    for (int rank = 0; rank < group.size(); ++rank) {
      rows.push_back(exact_batch(2, rank));
      rows.push_back(exact_batch(2, rank + 3));
    }
    whole->forward(at::cat(rows)).sum().div(group.size()).backward();
    const auto wanted = gradients_of(*whole);
    const auto got = gradients_of(*model.module());
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(testing::same(got[i], wanted[i])) << "parameter " << i;
    model->zero_grad();
    whole->zero_grad();
  }
}

TEST(MpiDataParallelProcs, EqualsOneProcess) {
  const comm::Group world = testing::mpi_world();
  equals_one_process(world, {});
  equals_one_process(
      world, {.bucket_bytes = 64, .first_bucket_bytes = 64, .find_unused = true});
}

TEST(MpiDataParallelProcs, Join) {
  const comm::Group world = testing::mpi_world();
  DataParallel model(small_net(), world);
  int made = 0;
  join({&model.replica()}, [&] {
    for (; made < 1 + world.rank(); ++made) {
      model(exact_batch(2, made)).mean().backward();
      model->zero_grad();
    }
  });
  EXPECT_EQ(made, 1 + world.rank());
  EXPECT_EQ(model.replica().reducer().rounds(), world.size());
}

}  // namespace
}  // namespace trireme::dp
