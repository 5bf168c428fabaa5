#include "trireme/data/distributed_sampler.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/base.h>
#include <torch/data/samplers/serialize.h>
#include <torch/serialize/archive.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;
using Indices = std::vector<size_t>;

/// What is left of the epoch, drawn in batches.
Indices rest_of(DistributedSampler& sampler, size_t batch = 3) {
  Indices all;
  while (const auto indices = sampler.next(batch))
    all.insert(all.end(), indices->begin(), indices->end());
  return all;
}

Indices part(DistributedSamplerOptions options, size_t rank, uint64_t epoch = 0) {
  options.rank = rank;
  DistributedSampler sampler(options);
  sampler.set_epoch(epoch);
  return rest_of(sampler);
}

/// The parts of all ranks, dealt back into one order.
Indices whole(const DistributedSamplerOptions& options, uint64_t epoch = 0) {
  std::vector<Indices> parts;
  for (size_t rank = 0; rank < options.ranks; ++rank)
    parts.push_back(part(options, rank, epoch));
  Indices order;
  for (size_t i = 0; i < parts[0].size(); ++i)
    for (const Indices& one : parts)
      order.push_back(one.at(i));
  return order;
}

TEST(DistributedSampler, CoversTheDatasetOnce) {
  for (const bool shuffle : {false, true})
    for (const size_t ranks : {1U, 2U, 3U, 5U, 8U}) {
      const size_t size = 120;
      const Indices order = whole({.size = size, .ranks = ranks, .shuffle = shuffle});
      EXPECT_EQ(order.size(), size);
      EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), size);
      EXPECT_EQ(*std::max_element(order.begin(), order.end()), size - 1);
    }
}

TEST(DistributedSampler, GivesEveryOtherSample) {
  const DistributedSamplerOptions options{.size = 7, .ranks = 3, .shuffle = false};
  EXPECT_EQ(part(options, 0), (Indices{0, 3, 6}));
  EXPECT_EQ(part(options, 1), (Indices{1, 4, 0}));
  EXPECT_EQ(part(options, 2), (Indices{2, 5, 1}));
}

TEST(DistributedSampler, PadsFromTheStartOfTheOrder) {
  for (const size_t size : {1U, 2U, 3U, 5U, 10U, 31U, 33U})
    for (const size_t ranks : {2U, 4U, 7U}) {
      const Indices order = whole({.size = size, .ranks = ranks, .seed = size});
      ASSERT_EQ(order.size(), (size + ranks - 1) / ranks * ranks);
      EXPECT_EQ(
          std::set<size_t>(
              order.begin(), order.begin() + static_cast<std::ptrdiff_t>(size))
              .size(),
          size);
      for (size_t i = size; i < order.size(); ++i)
        EXPECT_EQ(order[i], order[i % size]) << size << " over " << ranks;
    }
}

TEST(DistributedSampler, DropsTheEndOfTheOrder) {
  const DistributedSamplerOptions options{.size = 11, .ranks = 4, .tail = Tail::Drop};
  const Indices order = whole(options);
  EXPECT_EQ(order.size(), 8U);
  EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), 8U);
  // The same order as that of a single rank, which drops nothing.
  const Indices one = whole({.size = 11});
  EXPECT_TRUE(std::equal(order.begin(), order.end(), one.begin()));
}

TEST(DistributedSampler, HasAnOrderForEverySeedAndEpoch) {
  const DistributedSamplerOptions options{.size = 50, .ranks = 2, .seed = 7};
  EXPECT_EQ(whole(options, 3), whole(options, 3));
  std::set<Indices> orders;
  for (uint64_t seed = 0; seed < 5; ++seed)
    for (uint64_t epoch = 0; epoch < 5; ++epoch)
      orders.insert(whole({.size = 50, .ranks = 2, .seed = seed}, epoch));
  EXPECT_EQ(orders.size(), 25U);
  const DistributedSamplerOptions plain{.size = 50, .ranks = 2, .shuffle = false};
  EXPECT_EQ(whole(plain, 0), whole(plain, 4));
}

TEST(DistributedSampler, BeginsAgainAfterReset) {
  DistributedSampler sampler({.size = 20, .ranks = 2});
  const Indices first = rest_of(sampler);
  EXPECT_FALSE(sampler.next(3).has_value());
  sampler.reset();
  EXPECT_EQ(rest_of(sampler), first);
  sampler.set_epoch(1);
  EXPECT_NE(rest_of(sampler), first);
  sampler.reset();
  EXPECT_EQ(sampler.position(), 0U);
  sampler.reset(6);
  EXPECT_EQ(sampler.samples(), 3U);
  EXPECT_EQ(sampler.options().size, 6U);
  EXPECT_EQ(rest_of(sampler), part({.size = 6, .ranks = 2}, 0, 1));
}

TEST(DistributedSampler, GoesOnInTheMiddle) {
  const DistributedSamplerOptions options{.size = 40, .rank = 1, .ranks = 2, .seed = 5};
  DistributedSampler first(options);
  first.set_epoch(2);
  first.next(4);
  first.next(3);
  EXPECT_EQ(first.position(), 7U);
  DistributedSampler second(options);
  second.set_epoch(2);
  second.seek(first.position());
  second.set_epoch(2);  // as a loop over epochs does; this one has begun
  second.reset();       // as a loader does when it begins
  EXPECT_EQ(second.position(), 7U);
  EXPECT_EQ(rest_of(second), rest_of(first));
  second.reset();
  EXPECT_EQ(second.position(), 0U);
  second.seek(20);
  second.reset();
  EXPECT_FALSE(second.next(1).has_value());
  second.seek(5);
  second.next(1);
  second.reset();  // it had begun, so this is another pass
  EXPECT_EQ(second.position(), 0U);
  second.seek(5);
  second.set_epoch(3);
  EXPECT_EQ(second.position(), 0U);
}

std::string saved(const DistributedSampler& sampler) {
  torch::serialize::OutputArchive archive;
  archive << sampler;
  std::ostringstream out;
  archive.save_to(out);
  return out.str();
}

void load(DistributedSampler& sampler, const std::string& bytes) {
  std::istringstream in(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(in);
  archive >> sampler;
}

TEST(DistributedSampler, GoesOnFromAnArchive) {
  const DistributedSamplerOptions options{
      .size = 41, .rank = 2, .ranks = 3, .seed = ~uint64_t{0}};
  DistributedSampler first(options);
  first.set_epoch(6);
  first.next(5);
  DistributedSampler second(options);
  load(second, saved(first));
  EXPECT_EQ(second.epoch(), 6U);
  second.reset();
  EXPECT_EQ(second.position(), 5U);
  EXPECT_EQ(rest_of(second), rest_of(first));
}

TEST(DistributedSampler, GoesOnWithOtherRanks) {
  DistributedSamplerOptions options{.size = 50, .ranks = 4, .seed = 3};
  const Indices order = whole({.size = 50, .seed = 3});
  DistributedSampler four(options);
  four.next(6);  // 24 samples of all ranks
  const std::string bytes = saved(four);
  options.ranks = 3;
  for (options.rank = 0; options.rank < 3; ++options.rank) {
    DistributedSampler three(options);
    load(three, bytes);
    EXPECT_EQ(three.position(), 8U);
    EXPECT_EQ(three.next(1)->at(0), order[24 + options.rank]);
  }
  options.rank = 0;
  options.ranks = 5;
  DistributedSampler five(options);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { load(five, bytes); }),
      "[data] expected to go on after a multiple of 5 samples, since there are as many "
      "ranks now, got 24 samples that 4 ranks were given; go on with"));
  rest_of(four);  // the end of an epoch is the same with any ranks
  load(five, saved(four));
  EXPECT_FALSE(five.next(1).has_value());
}

TEST(DistributedSampler, RefusesWhatCannotBe) {
  const auto refusal = [](const DistributedSamplerOptions& options) {
    return message_of<InvalidArgument>([&] { DistributedSampler sampler(options); });
  };
  EXPECT_TRUE(
      contains(refusal({}), "[data] expected a dataset with samples, got none"));
  EXPECT_TRUE(contains(
      refusal({.size = 5, .rank = 2, .ranks = 2}),
      "below the number of ranks, got "
      "rank 2 of 2"));
  EXPECT_TRUE(contains(refusal({.size = 5, .ranks = 0}), "got rank 0 of 0"));
  EXPECT_TRUE(contains(
      refusal({.size = 3, .ranks = 4, .tail = Tail::Drop}),
      "expected a sample for each of 4 ranks, got 3"));
  DistributedSampler sampler({.size = 10, .ranks = 2});
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { sampler.seek(6); }),
      "expected a position up to 5"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { sampler.next(0); }), "got a batch size of 0"));
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { sampler.reset(0); }), "got none"));
  EXPECT_EQ(sampler.options().size, 10U);
}

TEST(DistributedSampler, RefusesArchivesOfOthers) {
  const std::string bytes = saved(DistributedSampler({.size = 10, .seed = 1}));
  const auto refusal = [](const DistributedSamplerOptions& options,
                          const std::string& archive) {
    DistributedSampler sampler(options);
    return message_of<InvalidArgument>([&] { load(sampler, archive); });
  };
  EXPECT_TRUE(contains(refusal({.size = 11, .seed = 1}, bytes), "size"));
  EXPECT_TRUE(contains(
      refusal({.size = 10, .seed = 2}, bytes),
      "expected to go on with the seed that was saved, 1, got 2"));
  EXPECT_TRUE(
      contains(refusal({.size = 10, .shuffle = false, .seed = 1}, bytes), "shuffle"));
  EXPECT_TRUE(
      contains(refusal({.size = 10, .seed = 1, .tail = Tail::Drop}, bytes), "tail"));
  torch::serialize::OutputArchive other;
  other.write("size", c10::IValue(int64_t{10}));
  std::ostringstream out;
  other.save_to(out);
  EXPECT_TRUE(contains(refusal({.size = 10}, out.str()), "one without \"seed\""));
}

/// Its batches are the indices that were asked for.
struct Numbers : torch::data::datasets::BatchDataset<Numbers, Indices> {
  Indices get_batch(c10::ArrayRef<size_t> indices) override { return indices.vec(); }
  std::optional<size_t> size() const override { return 30; }
};

TEST(DistributedSampler, FeedsALoader) {
  const DistributedSamplerOptions options{.size = 30, .rank = 1, .ranks = 2, .seed = 9};
  DistributedSampler sampler(options);
  auto loader = torch::data::make_data_loader(Numbers(), sampler, 4);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    sampler.set_epoch(epoch);  // the loader's copy is the same sampler
    Indices seen;
    for (const Indices& batch : *loader) {
      seen.insert(seen.end(), batch.begin(), batch.end());
      EXPECT_EQ(sampler.position(), seen.size());
    }
    EXPECT_EQ(seen, part(options, 1, epoch));
  }
  sampler.seek(8);
  Indices rest;
  for (const Indices& batch : *loader)
    rest.insert(rest.end(), batch.begin(), batch.end());
  const Indices all = part(options, 1, 2);
  EXPECT_EQ(rest, Indices(all.begin() + 8, all.end()));
}

TEST(DistributedSampler, FeedsALoaderWithWorkers) {
  const DistributedSamplerOptions options{.size = 30, .ranks = 2, .seed = 9};
  DistributedSampler sampler(options);
  auto loader = torch::data::make_data_loader(
      Numbers(), sampler, torch::data::DataLoaderOptions(4).workers(2));
  Indices seen;
  for (const Indices& batch : *loader)
    seen.insert(seen.end(), batch.begin(), batch.end());
  EXPECT_EQ(seen, part(options, 0));
}

}  // namespace
}  // namespace trireme::data
