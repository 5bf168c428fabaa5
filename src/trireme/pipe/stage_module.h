// What a stage computes: any module, behind one small interface.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::pipe {

/// Tensors in order; an undefined one stands for one that is absent.
using Tensors = std::vector<at::Tensor>;
/// Tensors with their names in the whole model.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The part of a model that one stage runs. Implement it for whatever is not a layer
/// list (layers.h) or a torch module (module_stage.h).
///
///     struct Twice : pipe::StageModule {
///       pipe::Tensors forward(const pipe::Tensors& in) override { return {in[0] * 2};
///       }
///     };
class StageModule {
 public:
  StageModule() = default;
  StageModule(const StageModule&) = delete;
  StageModule& operator=(const StageModule&) = delete;
  virtual ~StageModule() = default;

  /// Computes the outputs of one microbatch. The inputs are the outputs of the stage
  /// before, then those of skip connections, then the side inputs of this stage, then
  /// what it takes by name.
  virtual Tensors forward(const Tensors& inputs) = 0;

  /// Tensors for stages further on, by name: the last ones of its outputs, in this
  /// order. Who takes them is found when the pipeline is made; the others do not see
  /// them.
  virtual std::vector<std::string> saved_skips() const { return {}; }
  /// Those that it takes of stages before: the last ones of its inputs, in this order.
  virtual std::vector<std::string> taken_skips() const { return {}; }

  /// What is trained, and what is only kept; names are those of the whole model.
  virtual NamedTensors parameters() const { return {}; }
  virtual NamedTensors buffers() const { return {}; }

  virtual void train(bool on) { training_ = on; }
  virtual bool is_training() const { return training_; }
  /// Evaluation mode, until the function that this gives is called: it puts every part
  /// back into the mode that it was in, which need not be the same for all.
  virtual std::function<void()> pause_training() {
    const bool was = is_training();
    train(false);
    return [this, was] { train(was); };
  }

  /// Whether the two halves of an OVERLAP_F_B may run at once, the backward on a thread
  /// of its own. Only the stage can know, so it has to say so. It must not if it talks
  /// to other ranks by collectives (SyncBatchNorm, tensor parallel), which would meet
  /// in another order on each rank; nor if it computes blocks again for backward
  /// (autograd::checkpoint) and their forward changes what the module holds.
  virtual bool may_overlap() const { return may_overlap_; }
  void allow_overlap(bool on = true) { may_overlap_ = on; }

 private:
  bool training_ = true;
  bool may_overlap_ = false;
};

using StagePtr = std::shared_ptr<StageModule>;

}  // namespace trireme::pipe
