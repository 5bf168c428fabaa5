// Reduces gradients over the ranks while backward still makes more of them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/core/error.h"
#include "trireme/dp/bucket_comm.h"
#include "trireme/dp/flat_gradients.h"
#include "trireme/dp/ready_hooks.h"
#include "trireme/dp/round_stats.h"

namespace trireme::dp {

/// What a reducer is made with.
struct ReducerOptions {
  BucketLimits limits{};
  Reduction reduction = Reduction::Mean;
  /// Parameters may stay without a gradient, and not the same ones on all ranks.
  bool find_unused = false;
  /// Every backward runs the same nodes; the first one shows which.
  bool static_graph = false;
  /// Put gradients into buckets in the order in which they come.
  bool rebuild = true;
  /// What gradients are added up and reduced in, if it is not the parameters' dtype.
  std::optional<c10::ScalarType> gradient_dtype{};
  /// Refuse NaN and infinity before they spread.
  bool check_finite = false;
  /// Take the squares of gradients as they land; see squares().
  bool norm = false;
  CommHooks hooks{};
  /// Passes do not open rounds by themselves: open(), close() and finish() do.
  bool by_hand = false;
  /// Backward runs on copies of the parameters in another dtype.
  bool mixed_precision = false;
};

/// Another rank is out of inputs, and that was to be an error; all ranks get it at the
/// end of the same step.
class EarlyEnd : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// Who can say which missing gradients are no mistake.
class Exemptions {
 public:
  /// Whether it is known why no gradient came for the node of a parameter.
  virtual bool is_exempt(const autograd::Node* node) = 0;

 protected:
  ~Exemptions() = default;
};

/// The heart of data parallelism. Every backward outside of pause() is one round: each
/// gradient goes to its place in a bucket when it is ready, buckets are reduced in
/// fixed order as they fill up, and when backward returns all gradients are reduced.
/// Gradients are read and written through the store of the pass.
class Reducer final : public ReadyListener {
 public:
  /// Collective: all ranks, with the same parameters and options.
  Reducer(
      std::vector<Parameter> parameters,
      const comm::Group& group,
      ReducerOptions options = {});
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const ReducerOptions& options() const { return options_; }
  const comm::Group& group() const { return comm_->group(); }
  const FlatGradients& gradients() const { return *gradients_; }
  ReadyHooks& hooks() const { return *hooks_; }

  /// Gradients of backwards from here on stay on this rank, until as many resume()s.
  void pause() { ++paused_; }
  void resume() { --paused_; }
  bool is_paused() const { return paused_ > 0; }

  /// This rank's weight in a weighted mean, from the next round on.
  void set_weight(int64_t weight);
  /// Divide means by the ranks that still have inputs; EarlyEnd from a backward if one
  /// has none.
  void divide_by_active(bool on) { by_active_ = on; }
  void throw_on_early_end(bool on) { throws_on_early_end_ = on; }

  /// Parameters that the graph of the next backward does not lead to: they count as
  /// ready from its start. By parameter; empty if nobody has looked.
  void set_reached(std::vector<uint8_t> reached) { reached_ = std::move(reached); }
  /// Called when all is reduced, before gradients go to those who read them; and when a
  /// round has failed.
  void set_before_give_back(std::function<void()> f) {
    before_give_back_ = std::move(f);
  }
  /// Asked at the end of a backward that left parameters without a gradient.
  void set_exemptions(Exemptions* exemptions) { exemptions_ = exemptions; }

  /// A round has begun and not ended.
  bool is_open() const { return open_; }
  /// A round by hand: gradients that become ready count from open() on; close() says
  /// that all are there, finish() waits for their reduction.
  void open();
  void open(autograd::GradientStore& store);
  void close();
  void finish();
  /// The pass has failed: unless the round has ended, tells the others not to wait for
  /// the rest of it, and stops what was launched.
  void abandon() noexcept;
  /// Begins a round at the start of a pass, before its first gradient.
  void begin_pass();

  /// A round of a rank that has no more inputs: takes part with zeros. False if no rank
  /// has any, and then nothing was changed.
  bool shadow();

  /// Parameters whose gradients are complete only at finish(): pipelines have such.
  void leave_to_finish(const std::vector<at::Tensor>& leaves);

  /// After a failure, or with fewer ranks: goes on over another group. Collective.
  void replace_group(const comm::Group& group);

  /// Of the last round.
  const RoundStats& stats() const { return stats_; }
  const RoundOutcome& outcome() const { return comm_->outcome(); }
  int64_t rounds() const { return round_; }
  /// Which ranks had inputs in the last round in which one had any; empty if they are
  /// not counted.
  const std::vector<int64_t>& last_active() const { return last_active_; }
  /// How often buckets were put in another order.
  int rebuilds() const { return rebuilds_; }
  /// Whether nobody has changed the gradient since it was reduced; known with the
  /// option `norm`.
  bool is_as_reduced(size_t parameter) const;
  /// The gradient in the dtype that it was reduced in.
  at::Tensor reduced(size_t parameter) const {
    return uses_places_ ? gradients_->view(parameter)
                        : store_->get(parameters_[parameter].tensor);
  }

  void ready(size_t parameter) override;

 private:
  struct Slot {
    /// How often the pass still calls its hook.
    int32_t waits = 1;
    /// How often a pass does; counted in the first round of a static graph.
    int32_t calls = 0;
    /// A gradient came since the last round.
    bool used = false;
    /// Its place has a sum of this window in it, where dtypes differ.
    bool begun = false;
    bool late = false;
  };

  // reducer.cpp: the rounds.
  void take(size_t parameter);
  void count_down(size_t parameter);
  void launch_full();
  void launch(size_t bucket, bool now);
  void end_pass();
  void take_missing();
  void check_missing(const std::vector<size_t>& missing);
  void check_early_end() const;
  bool counts_calls() const { return options_.static_graph && !counted_; }
  std::vector<uint8_t> first_flags() const;
  std::vector<uint8_t> last_flags();

  // reducer_gradients.cpp: gradients and their places.
  void leave_places(autograd::GradientStore& store);
  void put(size_t parameter);
  void widen(size_t parameter);
  void check_finite(size_t parameter);
  void give_back();
  std::vector<int> order_of_round() const;
  void plan_buckets(const std::vector<int>& order);
  bool wants_rebuild();
  void rebuild();
  ParameterSize size_of(const Parameter& parameter) const;

  std::vector<Parameter> parameters_;
  ReducerOptions options_;
  std::vector<ParameterSize> sizes_;
  std::vector<Slot> slots_;
  Buckets buckets_;
  std::unique_ptr<FlatGradients> gradients_;
  std::unique_ptr<BucketComm> comm_;
  Exemptions* exemptions_ = nullptr;
  std::function<void()> before_give_back_;
  int paused_ = 0;
  int64_t weight_ = 1;
  bool by_active_ = false;
  bool throws_on_early_end_ = false;
  bool has_inputs_ = true;
  std::vector<int64_t> last_active_;
  /// Gradients go to their places in buckets. A rank that is alone, and does nothing
  /// with them, leaves them where they are.
  bool uses_places_ = true;
  std::vector<uint8_t> reached_;

  // The round that runs.
  autograd::GradientStore* store_ = &autograd::grad_field();
  bool open_ = false;
  /// The calls of a static graph are known.
  bool counted_ = false;
  /// Its pass has failed: it stays open until the group is replaced.
  bool abandoned_ = false;
  std::vector<int> pending_;
  size_t next_ = 0;
  /// In which gradients came, and as buckets were planned.
  std::vector<int> order_;
  std::vector<int> planned_order_;
  std::vector<int> wanted_order_;
  /// Parameters whose gradient is not in its place for those who read it.
  std::vector<size_t> unset_;
  size_t taken_ = 0;
  /// Backward has ended: buckets wait for finish().
  bool at_end_ = false;
  int64_t round_ = 0;
  int rebuilds_ = 0;
  int64_t next_rebuild_ = 0;
  RoundStats stats_;
  /// Versions of gradients when they were reduced, with the option `norm`.
  std::vector<int64_t> versions_;
  std::unique_ptr<ReadyHooks> hooks_;  // last: they call this
};

}  // namespace trireme::dp
