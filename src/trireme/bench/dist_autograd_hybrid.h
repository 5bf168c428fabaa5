// The hybrid step of `trireme bench dist-autograd`: trainers with data parallelism
// around what they have of a model, the rest of it at a server.
#pragma once
#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "trireme/comm/group.h"
#include "trireme/dist_autograd/context.h"
#include "trireme/rpc/agent.h"

namespace trireme::bench {

/// Ranks 0 to 3 train, rank 4 serves.
inline constexpr int kHybridTrainers = 4;

/// All parts of the model, with the same values on every worker: the server has
/// `embedding` and `net`, each trainer its own `fc1` and `fc2`.
struct HybridParts {
  HybridParts();
  torch::nn::EmbeddingBag embedding;
  torch::nn::Linear net, fc1, fc2;
};

/// A trainer's share of the data.
struct HybridBatch {
  explicit HybridBatch(int rank);
  at::Tensor ids, offsets, dense, values;
};

/// What the server serves.
void add_hybrid_functions(
    rpc::FunctionTable& functions, const std::shared_ptr<HybridParts>& parts);

/// One trainer, on its batch.
class HybridTrainer {
 public:
  /// Collective over the trainers. The agent must live as long.
  HybridTrainer(const rpc::Agent& agent, comm::Group trainers);
  ~HybridTrainer();
  /// Forward and backward in a context of its own: fc1(dense) beside the server's
  /// embeddings of the ids, through the server's net, and fc2.
  void step(const dist_autograd::BackwardOptions& options);
  /// Throws unless gradients are what they should be, here and at the server.
  /// Collective.
  void check(const dist_autograd::BackwardOptions& options);

 private:
  struct Model;
  at::Tensor loss();

  const rpc::Agent& agent_;
  comm::Group trainers_;
  HybridBatch batch_;
  std::unique_ptr<Model> model_;
};

/// Throws unless they are close; `what` they should be is for the message.
void expect_gradient(const at::Tensor& got, const at::Tensor& wanted, const char* what);

}  // namespace trireme::bench
