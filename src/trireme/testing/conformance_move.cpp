// Conformance: the collectives that only move data.
#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::testing {
namespace {

using comm::Group;

const std::vector<int64_t> kCounts = {0, 1, 1000, 20000, 400001};

// Every element tells whose it is.
at::Tensor mark(int64_t count, int from, int to = 0, at::ScalarType dtype = at::kInt) {
  return at::arange(count, at::kLong)
      .remainder(1000)
      .add(from * 10000 + to * 1000)
      .to(dtype);
}

// Private memory, or memory that the peers can reach.
at::Tensor room(const Group& world, int64_t count, bool shared) {
  return shared ? world.allocate({count}, at::kInt) : at::empty({count}, at::kInt);
}

void broadcast_copies_the_root(const Group& world) {
  for (const int64_t count : kCounts)
    for (int root = 0; root < world.size(); ++root)
      for (const bool shared : {false, true}) {
        at::Tensor x = room(world, count, shared);
        x.copy_(mark(count, world.rank()));
        comm::broadcast(world, x, root);
        EXPECT_TRUE(same(x, mark(count, root)))
            << "count " << count << " root " << root;
      }
}

void broadcast_moves_any_dtype(const Group& world) {
  for (const auto dtype :
       {at::kBool, at::kHalf, at::kComplexFloat, at::kDouble, at::kFloat8_e4m3fn}) {
    at::Tensor x = mark(9, world.rank()).to(at::kFloat).to(dtype);
    comm::broadcast(world, x, world.size() - 1);
    const at::Tensor wanted = mark(9, world.size() - 1).to(at::kFloat).to(dtype);
    EXPECT_TRUE(same(x.to(at::kComplexFloat), wanted.to(at::kComplexFloat))) << dtype;
  }
}

void all_gather_collects_everybody(const Group& world) {
  for (const int64_t count : kCounts)
    for (const bool shared : {false, true}) {
      at::Tensor input = room(world, count, shared);
      input.copy_(mark(count, world.rank()));
      at::Tensor output = room(world, count * world.size(), shared);
      comm::all_gather(world, output, input);
      std::vector<at::Tensor> wanted;
      for (int k = 0; k < world.size(); ++k)
        wanted.push_back(mark(count, k));
      EXPECT_TRUE(same(output, at::cat(wanted))) << "count " << count;
    }
  // In place: the input is this rank's part of the output.
  at::Tensor output = at::zeros({world.size(), 700}, at::kInt);
  output[world.rank()].copy_(mark(700, world.rank()));
  comm::all_gather(world, output, output[world.rank()]);
  for (int k = 0; k < world.size(); ++k)
    EXPECT_TRUE(same(output[k], mark(700, k)));
}

void all_gather_uneven_keeps_every_shape(const Group& world) {
  for (const int64_t scale : {1, 3000, 60000}) {
    const auto of = [&](int k) {
      return mark(scale * k * 2, k).reshape({k, 2, scale});
    };
    std::vector<at::Tensor> outputs;
    comm::all_gather_uneven(world, outputs, of(world.rank()));
    ASSERT_EQ(outputs.size(), static_cast<size_t>(world.size()));
    for (int k = 0; k < world.size(); ++k)
      EXPECT_TRUE(same(outputs[static_cast<size_t>(k)], of(k))) << "scale " << scale;
  }
}

void all_to_all_swaps_parts(const Group& world) {
  for (const int64_t count : kCounts)
    for (const bool shared : {false, true}) {
      std::vector<at::Tensor> parts, wanted;
      for (int k = 0; k < world.size(); ++k) {
        parts.push_back(mark(count, world.rank(), k));
        wanted.push_back(mark(count, k, world.rank()));
      }
      at::Tensor input = room(world, count * world.size(), shared);
      input.copy_(at::cat(parts));
      at::Tensor output = room(world, count * world.size(), shared);
      comm::all_to_all(world, output, input);
      EXPECT_TRUE(same(output, at::cat(wanted))) << "count " << count;
    }
}

void all_to_all_takes_unequal_parts(const Group& world) {
  const auto count = [](int from, int to, int64_t scale) {
    return scale * ((from + 2 * to) % 3);
  };
  for (const int64_t scale : {1, 500, 200000}) {
    std::vector<at::Tensor> inputs, outputs;
    for (int k = 0; k < world.size(); ++k) {
      inputs.push_back(mark(count(world.rank(), k, scale), world.rank(), k));
      outputs.push_back(at::zeros({count(k, world.rank(), scale)}, at::kInt));
    }
    comm::all_to_all(world, outputs, inputs);
    for (int k = 0; k < world.size(); ++k)
      EXPECT_TRUE(same(
          outputs[static_cast<size_t>(k)],
          mark(count(k, world.rank(), scale), k, world.rank())));
  }
}

void all_to_all_finds_counts_that_do_not_match(const Group& world) {
  std::vector<at::Tensor> inputs, outputs;
  for (int k = 0; k < world.size(); ++k) {
    inputs.push_back(at::zeros({2}));
    const bool wrong = world.rank() == world.size() - 1 && k == 0;
    outputs.push_back(at::zeros({wrong ? 3 : 2}));
  }
  const std::string what =
      message_of<InvalidArgument>([&] { comm::all_to_all(world, outputs, inputs); });
  EXPECT_TRUE(contains(
      what,
      text("expected 3 elements from rank 0 at rank ", world.size() - 1, ", got 2")));
  comm::barrier(world);  // the group is still in step
}

void gather_and_scatter_are_opposites(const Group& world) {
  for (const int64_t count : kCounts)
    for (int root = 0; root < world.size(); ++root) {
      std::vector<at::Tensor> all;
      for (int k = 0; world.rank() == root && k < world.size(); ++k)
        all.push_back(at::zeros({count}, at::kInt));
      comm::gather(world, all, mark(count, world.rank()), root);
      for (size_t k = 0; k < all.size(); ++k)
        EXPECT_TRUE(same(all[k], mark(count, static_cast<int>(k))));
      at::Tensor back = at::zeros({count}, at::kInt);
      comm::scatter(world, back, all, root);
      EXPECT_TRUE(same(back, mark(count, world.rank()))) << "count " << count;
    }
}

void outputs_may_be_strided(const Group& world) {
  at::Tensor wide = at::zeros({4, 2 * world.size()}, at::kInt);
  at::Tensor output = wide.slice(1, 0, 2 * world.size(), 2);
  comm::all_gather(world, output.t(), at::full({4}, world.rank(), at::kInt));
  for (int k = 0; k < world.size(); ++k) {
    EXPECT_TRUE(same(wide.select(1, 2 * k), at::full({4}, k, at::kInt)));
    EXPECT_TRUE(same(wide.select(1, 2 * k + 1), at::zeros({4}, at::kInt)));
  }
}

}  // namespace

std::vector<ConformanceCase> move_cases() {
  return {
      {"BroadcastCopiesTheRoot", broadcast_copies_the_root},
      {"BroadcastMovesAnyDtype", broadcast_moves_any_dtype},
      {"AllGatherCollectsEverybody", all_gather_collects_everybody},
      {"AllGatherUnevenKeepsEveryShape", all_gather_uneven_keeps_every_shape},
      {"AllToAllSwapsParts", all_to_all_swaps_parts},
      {"AllToAllTakesUnequalParts", all_to_all_takes_unequal_parts},
      {"AllToAllFindsCountsThatDoNotMatch", all_to_all_finds_counts_that_do_not_match},
      {"GatherAndScatterAreOpposites", gather_and_scatter_are_opposites},
      {"OutputsMayBeStrided", outputs_may_be_strided}};
}

}  // namespace trireme::testing
