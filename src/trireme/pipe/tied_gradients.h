// Sums the gradients of parameters that several stages have.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trireme/autograd/gradient_store.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/group.h"
#include "trireme/pipe/runtime.h"
#include "trireme/pipe/tied.h"

namespace trireme::pipe {

/// A store that keeps the gradients of tied parameters apart until the step is over,
/// since only what this step has added may be summed. All others go on to `store`.
/// Sums of float16 and bfloat16 are taken in float32, over microbatches and over
/// places, and rounded once, to `dtype` if there is one, else to the parameter's.
/// Gradients may be sparse. Post-accumulate hooks of tied parameters are called once a
/// step, when their sum is there.
class TiedGradients final : public autograd::GradientStore {
 public:
  /// Makes the values equal to those of the first place. InvalidArgument on all ranks
  /// if places differ in shape or dtype. Collective over the group.
  TiedGradients(
      const std::vector<Tied>& tied,
      const std::vector<int>& rank_of_stage,
      const std::vector<Stage>& stages,
      const comm::Group& group,
      autograd::GradientStore& store,
      std::optional<at::ScalarType> dtype = {});

  void accumulate(
      const at::Tensor& leaf, const at::Tensor& gradient, size_t references) override;
  at::Tensor get(const at::Tensor& leaf) const override { return store_.get(leaf); }
  void set(const at::Tensor& leaf, const at::Tensor& gradient) override {
    store_.set(leaf, gradient);
  }
  bool is_grad_field() const override { return store_.is_grad_field(); }
  bool holds_back(const at::Tensor& leaf) const override {
    return is_tied_.contains(leaf.unsafeGetTensorImpl());
  }

  /// Adds up what the step has left on all ranks, in the order of the places, and adds
  /// the sum to each place's gradient.
  void finish();
  /// Those of this rank, which get their gradients by finish().
  const std::vector<at::Tensor>& leaves() const { return leaves_; }
  /// Forgets a step that failed.
  void clear() { step_.clear(); }

 private:
  /// One tied parameter, as this rank sees it.
  struct Tie {
    /// The places, in order: the parameter if it is here, else the rank that has it.
    struct Place {
      int rank = 0;
      at::Tensor here;
    };
    std::vector<Place> places;
    /// To and from the rank of the first place; one for each other rank there.
    struct Way {
      int rank = 0;
      comm::Channel up;
      comm::Channel down;
    };
    std::vector<Way> ways;
    bool is_home = false;
    bool is_here = false;
  };
  void equalise(const Tie& tie) const;
  at::Tensor sum_up(const Tie& tie) const;
  at::Tensor receive_sum(const Tie& tie) const;
  std::vector<at::Tensor> own_gradients(const Tie& tie) const;
  void give(const at::Tensor& leaf, const at::Tensor& sum);

  autograd::GradientStore& store_;
  std::optional<at::ScalarType> dtype_;
  std::vector<Tie> ties_;
  std::vector<at::Tensor> leaves_;
  std::unordered_set<c10::TensorImpl*> is_tied_;
  /// What this step has added so far.
  std::unordered_map<c10::TensorImpl*, at::Tensor> step_;
};

}  // namespace trireme::pipe
