// The part of a job that computes: stages, pipeline, gradients over ranks, optimizer.
#pragma once
#include <memory>
#include <vector>

#include "trireme/comm/mesh.h"
#include "trireme/data/token_loader.h"
#include "trireme/dp/clip_grad_norm.h"
#include "trireme/model/build_stages.h"
#include "trireme/model/model_plan.h"
#include "trireme/pipe/pipeline.h"
#include "trireme/train/config.h"
#include "trireme/train/layout.h"
#include "trireme/train/optimizer.h"

namespace trireme::train {

/// What this rank saw of a step.
struct StepOutcome {
  /// The mean over this pipeline's samples, on the ranks of its last stage; else 0.
  double loss = 0;
  /// The norm of all gradients, before they were cut.
  double grad_norm = 0;
  /// Computing, and from when to when the passes ran.
  double busy_s = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

/// Drawing the weights of a large model takes long; who overwrites them, or only
/// measures, does without.
enum class FirstWeights { OfTheSeed, Zeros };

/// One rank's model under one layout. Making one is collective over the mesh, which has
/// the axes "dp" and "pp"; so are its steps.
class Engine {
 public:
  /// Weights are those of the seed, or 0 if somebody loads others next.
  Engine(
      const comm::Mesh& mesh,
      const model::ModelPlan& plan,
      const Layout& layout,
      const Config& config,
      FirstWeights first = FirstWeights::OfTheSeed);

  /// The gradients of this pipeline's share of a step's batch, reduced over the ranks,
  /// and their norm. What follows is update() or discard(), on all ranks alike.
  StepOutcome backward(const data::TokenBatch& batch);
  /// Steps the weights by these gradients, cut to max_norm, and drops them.
  void update(double rate);
  /// Drops them: the weights and the optimizer stay as they are.
  void discard();
  /// backward() and, if the norm is a finite number, update().
  StepOutcome step(const data::TokenBatch& batch, double rate);
  /// The mean loss on this pipeline's share, on the ranks of its last stage; else 0.
  double evaluate(const data::TokenBatch& batch);

  /// The first pass of a batch, as the pipeline takes it: for profiles.
  pipe::Batch pass(const data::TokenBatch& batch, int number) const;
  /// Whether this rank needs batches, for the first stage or the last.
  bool reads_data() const { return has_first_ || has_last_; }
  bool has_last() const { return has_last_; }
  /// Of the pipelines, which have the same weights, the first one writes them.
  bool writes_checkpoints() const { return mesh_.coordinate("dp") == 0; }
  at::ScalarType dtype() const { return dtype_; }

  pipe::Pipeline& pipeline() { return *pipeline_; }
  Optimizer& optimizer() { return *optimizer_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  const Layout& layout() const { return layout_; }
  /// The layers of this rank's stages, and which stages these are.
  const std::vector<pipe::LayerList>& layers() const { return layers_; }
  const std::vector<int>& stages() const { return stages_; }

 private:
  void make_sync();
  void make_pipeline(const model::ModelPlan& plan, const Config& config);
  /// The norm of all gradients; sets factor_ to what they are to be cut by.
  double take_norm();

  comm::Mesh mesh_;
  Layout layout_;
  double max_norm_ = 0;
  double factor_ = 1;
  at::ScalarType dtype_;
  std::vector<int> stages_;
  std::vector<pipe::LayerList> layers_;
  std::shared_ptr<dp::StageSync> sync_;
  std::unique_ptr<pipe::Pipeline> pipeline_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<dp::ClippedParameter> clipped_;
  bool has_first_ = false;
  bool has_last_ = false;
};

/// The mean loss of predicting each target; in float32 whatever the logits are.
at::Tensor token_loss(const pipe::Tensors& outputs, const pipe::Tensors& targets);

}  // namespace trireme::train
