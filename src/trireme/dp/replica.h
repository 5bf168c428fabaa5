// One rank's copy of a model, kept in step with the others.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/dp/join.h"
#include "trireme/dp/low_precision.h"
#include "trireme/dp/options.h"
#include "trireme/dp/output_watch.h"
#include "trireme/dp/reducer.h"
#include "trireme/dp/visit_tensors.h"

namespace torch::nn {
class Module;
}

namespace trireme::dp {

/// This rank's copy of a model: DataParallel without the type of the module. Its hooks
/// are on the parameters, so a model that is run by itself is reduced as well; but then
/// outputs that take no part in the loss, and graphs that are to be walked, need
/// watch().
///
///     Replica replica(*module, group);
///     at::Tensor output = replica.watch(module->forward(input));
class Replica final : public Joinable {
 public:
  Replica(
      torch::nn::Module& module,
      const comm::Group& group,
      DataParallelOptions options = {});
  ~Replica() override;

  const DataParallelOptions& options() const { return options_; }
  /// The type of the module.
  std::string module_name() const;
  const comm::Group& group() const { return reducer_->group(); }
  Reducer& reducer() { return *reducer_; }
  const Reducer& reducer() const { return *reducer_; }
  /// Of the parameters in `delay`; null if there are none.
  const Reducer* delayed() const { return delayed_.get(); }
  const RoundStats& stats() const { return reducer_->stats(); }

  /// Before a forward: checks that the last backward has ended, and makes buffers
  /// equal. Parameters have the dtype to compute in while the result lives and, in
  /// training, until the next backward has ended; InvalidArgument if an optimizer has
  /// stepped them meanwhile.
  [[nodiscard]] std::unique_ptr<LowPrecisionScope> before_forward();
  /// An input in the dtype to compute in.
  at::Tensor cast_input(const at::Tensor& input) const;
  /// After it: gives its outputs back, each with the same memory and gradient.
  template <class T>
  T watch(T outputs) {
    begin_watch();
    visit_tensors(outputs, Watcher{watch_});
    end_watch();
    return outputs;
  }

  /// While it lives, gradients stay on this rank and add up; the first backward after
  /// it reduces the sum. Scopes may be nested. Counts for backwards, not forwards.
  class NoSync {
   public:
    explicit NoSync(Reducer& reducer) : reducer_(reducer) { reducer_.pause(); }
    ~NoSync() { reducer_.resume(); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Reducer& reducer_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*reducer_); }

  /// How many samples or tokens this rank's next gradients stand for.
  void set_weight(int64_t weight) { reducer_->set_weight(weight); }

  /// Reduces the gradients of the parameters in `delay`, as they are now. Collective.
  void reduce_delayed();
  /// Makes buffers equal now. Collective.
  void sync_buffers();
  /// All parameters and buffers from one rank. Collective.
  void broadcast_state(int source = 0);
  /// Error if values of parameters differ between ranks, frozen and delayed ones
  /// included. The option check_replicas_every compares buffers as well, where no
  /// forward has changed them since they were made equal. Collective.
  void check_replicas() const;
  /// After a failure, or with fewer ranks: goes on over another group, with the values
  /// of its first rank. Collective.
  void replace_group(const comm::Group& group);

  void begin_join(const JoinOptions& options) override;
  bool shadow_step() override;
  void all_joined() override;
  void end_join() override;

 private:
  /// Sees each tensor of an output.
  struct Watcher {
    OutputWatch& watch;
    void operator()(at::Tensor& tensor) const { tensor = watch.watch(tensor); }
    void elsewhere() const { watch.elsewhere(); }
  };
  NamedBuffers buffers() const;
  std::vector<Parameter> all_parameters() const;
  void verify(const comm::Group& group) const;
  std::vector<Parameter> parameters(bool delayed) const;
  std::vector<Parameter> kept_parameters() const;
  std::vector<Parameter> full_parameters() const;
  void check_current() const;
  void check_frozen() const;
  void check_delayed();
  std::unique_ptr<LowPrecisionScope> make_copies() const;
  void begin_low_precision(std::unique_ptr<LowPrecisionScope> low);
  void end_low_precision();
  void check_copies();
  void ask_for_buffers();
  void keep_equal();
  void begin_watch();
  void end_watch();
  bool trains() const;
  int buffer_source() const;

  torch::nn::Module& module_;
  DataParallelOptions options_;
  std::unique_ptr<Reducer> reducer_;
  /// Of the parameters in `delay`, if there are any.
  std::unique_ptr<Reducer> delayed_;
  bool warned_of_delayed_ = false;
  /// Needed no gradient when the model was wrapped.
  std::vector<Parameter> frozen_;
  OutputWatch watch_;
  /// Rounds when buffers were made equal last, and values compared.
  int64_t buffers_round_ = 0;
  int64_t checked_round_ = 0;
  /// No forward has changed buffers since they were made equal.
  bool buffers_equal_ = false;
  bool joins_ = false;
  /// From a forward to the end of the next backward.
  std::unique_ptr<LowPrecisionScope> low_;
};

}  // namespace trireme::dp
