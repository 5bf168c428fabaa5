// Data parallelism inside a pipeline: each stage's gradients over the ranks that have
// the same stage.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "trireme/autograd/gradient_sync.h"
#include "trireme/comm/group.h"
#include "trireme/dp/reducer.h"

namespace trireme::dp {

/// The parameters of one stage of this rank.
struct StageParameters {
  int stage = 0;
  std::vector<Parameter> parameters;
};

/// Reduces the gradients of a pipeline's stages over the data-parallel axis of a mesh,
/// stage by stage while the other stages still work. One reducer a stage. Of the
/// options it takes those that stages have, and refuses the others by name; hooks are
/// made for each stage by `stage_hooks`.
///
///     comm::Mesh mesh(world, {{"dp", 2}, {"pp", 2}});
///     auto sync = std::make_shared<dp::StageSync>(stages, mesh["dp"]);
///     pipe::Pipeline pipeline(mine, mesh["pp"], loss, {.sync = sync});
class StageSync final : public autograd::GradientSync {
 public:
  /// Collective over the group: all its ranks have the same stages. A parameter of
  /// several stages is reduced once, when the step ends.
  StageSync(
      const std::vector<StageParameters>& stages,
      const comm::Group& group,
      DataParallelOptions options = {});

  void last_backward(int stage) override;
  void reduce(int stage) override;
  void finish() override;
  void abandon() noexcept override;
  /// Parameters are whole on every rank.
  void unshard(int) override {}
  void reshard(int) override {}
  void leave_to_finish(const std::vector<at::Tensor>& leaves) override;
  /// The options' store, if they name one, must be the same.
  void use(autograd::GradientStore& store) override;
  std::optional<at::ScalarType> gradient_dtype() const override {
    return options_.reduction_dtype();
  }

  /// Gradients of steps from here on stay on this rank and add up, until as many
  /// resume()s.
  void pause();
  void resume();
  /// This rank's weight in a weighted mean.
  void set_weight(int64_t weight);
  /// After a failure, or with other ranks; with the order of buckets and, if the
  /// options ask for init_sync, the values of the group's first rank. Collective.
  void replace_group(const comm::Group& group);

  const comm::Group& group() const { return group_; }
  /// One a stage with parameters, by stage.
  const std::map<int, std::unique_ptr<Reducer>>& reducers() const { return reducers_; }

 private:
  Reducer* find(int stage) const;
  autograd::GradientStore& store() const;
  void make_equal() const;
  void check_frozen() const;

  DataParallelOptions options_;
  /// What the pipeline has said; null if none has.
  autograd::GradientStore* store_ = nullptr;
  std::vector<StageParameters> stages_;
  comm::Group group_;
  std::map<int, std::unique_ptr<Reducer>> reducers_;
  /// The hooks of each stage with parameters, by stage.
  std::map<int, CommHooks> hooks_;
  /// Of parameters that several stages of this rank have.
  std::vector<at::Tensor> shared_;
  /// Needed no gradient at the start.
  std::vector<Parameter> frozen_;
  int paused_ = 0;
};

}  // namespace trireme::dp
