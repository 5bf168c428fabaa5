// Gradients that list rows.
#include <cmath>
#include <optional>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;
using testing::same;

/// An embedding, a bag of embeddings and a dense block.
class Words : public torch::nn::Module {
 public:
  explicit Words(bool sparse) {
    using torch::nn::EmbeddingBagOptions;
    using torch::nn::EmbeddingOptions;
    one = register_module(
        "one", torch::nn::Embedding(EmbeddingOptions(6, 4).sparse(sparse)));
    bag = register_module(
        "bag",
        torch::nn::EmbeddingBag(
            EmbeddingBagOptions(6, 4).sparse(sparse).mode(torch::kSum)));
    dense = register_parameter("dense", whole_numbers({4}, 3, at::kFloat));
    one->weight.data().copy_(whole_numbers({6, 4}, 4));
    bag->weight.data().copy_(whole_numbers({6, 4}, 5));
  }
  at::Tensor forward(const at::Tensor& indices) {
    return (one(indices).sum(1) + bag(indices)) * dense;
  }
  torch::nn::Embedding one{nullptr};
  torch::nn::EmbeddingBag bag{nullptr};
  at::Tensor dense;
};

at::Tensor indices_of(int rank) {
  return rank == 0 ? at::tensor({0, 1, 1, 1}, at::kLong).view({2, 2})
                   : at::tensor({1, 4, 3, 0}, at::kLong).view({2, 2});
}

void expect_as_one(const comm::Group& group, const DataParallelOptions& options) {
  const auto net = std::make_shared<Words>(true);
  const auto whole = std::make_shared<Words>(false);
  DataParallel model(net, group, options);
  for (int step = 0; step < 4; ++step) {
    if (step == 2) {
      const auto guard = model.no_sync();
      model(indices_of(group.rank())).sum().backward();
      whole->forward(indices_of(0)).sum().backward();
      whole->forward(indices_of(1)).sum().backward();
    }
    model(indices_of(group.rank())).sum().backward();
    whole->forward(indices_of(0)).sum().backward();
    whole->forward(indices_of(1)).sum().backward();
    for (const auto& [mine, its] :
         {std::pair{net->one->weight, whole->one->weight},
          std::pair{net->bag->weight, whole->bag->weight}}) {
      ASSERT_TRUE(mine.grad().is_sparse());
      EXPECT_TRUE(mine.grad().is_coalesced());
      EXPECT_EQ(mine.grad()._indices().size(1), 4);  // rows 0, 1, 3 and 4
      EXPECT_TRUE(same(mine.grad().to_dense(), its.grad() / 2));
    }
    EXPECT_TRUE(same(net->dense.grad(), whole->dense.grad() / 2));
    drop_gradients(*net);
    drop_gradients(*whole);
  }
}

TEST(DataParallelSparseRanks, EmbeddingsAsOneProcess) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      expect_as_one(group, {});
      expect_as_one(group, {.bucket_bytes = 1});
      expect_as_one(group, {.bucket_bytes = 1, .find_unused = true});
      expect_as_one(group, {.bucket_bytes = 1, .static_graph = true});
      expect_as_one(group, {.reduction = Reduction::WeightedMean});
    });
}

/// Embeddings and nothing else.
class Pure : public torch::nn::Module {
 public:
  Pure() {
    one = register_module(
        "one", torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 4).sparse(true)));
  }
  at::Tensor forward(const at::Tensor& indices) { return one(indices); }
  torch::nn::Embedding one{nullptr};
};

TEST(DataParallelSparseRanks, NothingButRows) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    for (const Reduction reduction : {Reduction::Mean, Reduction::WeightedMean}) {
      const auto net = std::make_shared<Pure>();
      DataParallel model(net, group, {.reduction = reduction});
      for (int step = 0; step < 2; ++step) {
        drop_gradients(*net);
        model(at::tensor({group.rank()}, at::kLong)).sum().backward();
        at::Tensor wanted = at::zeros({6, 4});
        wanted.narrow(0, 0, 2).fill_(0.5);
        EXPECT_TRUE(same(net->one->weight.grad().to_dense(), wanted));
      }
    }
  });
}

// One rank has rows, the other none; then nobody has.
TEST(DataParallelSparseRanks, UnusedHereAndUsedThere) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Words>(true);
    DataParallel model(net, group, {.bucket_bytes = 1, .find_unused = true});
    const auto step = [&](bool embeds) {
      drop_gradients(*net);
      at::Tensor loss = net->dense.sum();
      if (embeds)
        loss = loss + net->one(at::tensor({2}, at::kLong)).sum();
      model.replica().watch(loss).backward();
    };
    step(group.rank() == 1);
    at::Tensor wanted = at::zeros({6, 4});
    wanted[2].fill_(0.5);
    EXPECT_TRUE(same(net->one->weight.grad().to_dense(), wanted));
    EXPECT_FALSE(net->bag->weight.grad().defined());
    step(false);
    EXPECT_FALSE(net->one->weight.grad().defined());
  });
}

TEST(DataParallelSparseRanks, RowsBesideWiderSums) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Words>(true);
    DataParallel model(net, group, {.gradient_dtype = at::kDouble});
    {
      const auto guard = model.no_sync();
      (net->one(at::tensor({2}, at::kLong)).sum() + net->dense.sum() +
       net->bag->weight.sum())
          .backward();
    }
    (net->one(at::tensor({2}, at::kLong)).sum() + net->dense.sum() +
     net->bag->weight.sum())
        .backward();
    EXPECT_EQ(net->one->weight.grad().to_dense()[2][0].item<float>(), 2);
    EXPECT_EQ(net->dense.grad()[0].item<float>(), 2);
  });
}

// A dense parameter that gets rows all the same.
TEST(DataParallelSparseRanks, RowsForAParameterThatWasNotSaidToHaveThem) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(1);
    DataParallel model(net, group);
    for (int step = 0; step < 2; ++step) {
      (at::embedding(net->weight(0), at::tensor({1}, at::kLong), -1, false, true)
           .sum() +
       net->bias(0).sum())
          .backward();
      at::Tensor wanted = at::zeros({4, 4}, at::kDouble);
      wanted[1].fill_(step + 1);
      EXPECT_TRUE(same(net->weight(0).grad(), wanted));
    }
  });
}

TEST(DataParallelSparseRanks, NaNInARow) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Pure>();
    DataParallel model(net, group, {.check_finite = true});
    const double scale = group.rank() == 1 ? std::nan("") : 1;
    const at::Tensor loss = (model(at::tensor({0}, at::kLong)) * scale).sum();
    EXPECT_TRUE(testing::contains(
        testing::message_of<Error>([&] { loss.backward(); }),
        "NaN or infinity on rank 1 in one.weight"));
  });
}

// Rows of low precision are reduced, and come back, in the dtype of the parameters;
// also on a rank that had no forward.
TEST(DataParallelSparseRanks, RowsUnderMixedPrecision) {
  for (const auto reduction :
       {std::optional<c10::ScalarType>(), std::optional(at::kBFloat16)})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const auto net = std::make_shared<Words>(true);
      DataParallelOptions options;
      options.mixed_precision.parameters = at::kBFloat16;
      options.mixed_precision.reduction = reduction;
      DataParallel model(net, group, options);
      const auto loss = [&] { return model(indices_of(group.rank())).sum(); };
      join({&model.replica()}, [&] {
        for (int step = 0; step < 2 + group.rank(); ++step) {
          {
            const auto guard = model.no_sync();
            loss().backward();
          }
          loss().backward();
          for (const at::Tensor& weight : {net->one->weight, net->bag->weight}) {
            EXPECT_TRUE(weight.grad().is_sparse());
            EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
            EXPECT_EQ(weight.scalar_type(), at::kFloat);
          }
          if (step == 0) {
            const auto whole = std::make_shared<Words>(false);
            for (int rank = 0; rank < 2; ++rank)
              whole->forward(indices_of(rank)).sum().backward();
            EXPECT_TRUE(
                same(net->one->weight.grad().to_dense(), whole->one->weight.grad()));
          }
          drop_gradients(*net);
        }
      });
    });
}

TEST(DataParallelSparseRanks, NaNRowsThatWeighNothing) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Pure>();
    DataParallel model(net, group, {.reduction = Reduction::WeightedMean});
    model.set_weight(group.rank() == 0 ? 2 : 0);
    (model(at::tensor({group.rank()}, at::kLong)) *
     (group.rank() == 0 ? 1 : std::nan("")))
        .sum()
        .backward();
    at::Tensor wanted = at::zeros({6, 4});
    wanted[0].fill_(1);
    EXPECT_TRUE(same(net->one->weight.grad().to_dense(), wanted));
  });
}

}  // namespace
}  // namespace trireme::dp
