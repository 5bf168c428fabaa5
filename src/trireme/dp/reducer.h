// Reduces gradients over the ranks while backward still makes more of them.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/core/error.h"
#include "trireme/dp/bucket_comm.h"
#include "trireme/dp/flat_gradients.h"
#include "trireme/dp/join.h"
#include "trireme/dp/options.h"
#include "trireme/dp/ready_hooks.h"
#include "trireme/dp/round_stats.h"

namespace trireme::dp {

/// Who begins and ends rounds.
enum class Rounds {
  /// Every outermost backward is one.
  OfPasses,
  /// open(), close() and finish() do.
  ByHand,
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
/// Gradients are read and written through the store of the pass, which may run on
/// several threads, one after the other. Another pass meanwhile is refused.
class Reducer final : public ReadyListener {
 public:
  /// Collective: all ranks, with the same parameters and options. What options say of
  /// modules (buffers, names, the values at the start) is Replica's.
  Reducer(
      std::vector<Parameter> parameters,
      const comm::Group& group,
      DataParallelOptions options = {},
      Rounds rounds = Rounds::OfPasses);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const DataParallelOptions& options() const { return options_; }
  const comm::Group& group() const { return comm_->group(); }
  const FlatGradients& gradients() const { return *gradients_; }
  ReadyHooks& hooks() const { return *hooks_; }

  /// Gradients of backwards from here on stay on this rank, until as many resume()s.
  void pause() { ++paused_; }
  void resume() { --paused_; }
  bool is_paused() const { return paused_ > 0; }

  /// This rank's weight in a weighted mean, from the next round on.
  void set_weight(int64_t weight);
  /// How means are divided, and whether it is an error that a rank is out of inputs,
  /// while ranks may be.
  void set_join(const JoinOptions& join) { join_ = join; }

  /// Parameters that the graph of the next backward does not lead to: they count as
  /// ready from its start. By parameter; empty if nobody has looked.
  void set_reached(std::vector<uint8_t> reached) { reached_ = std::move(reached); }
  /// What optimizers step, by parameter, while parameters hold copies in another dtype;
  /// empty: the parameters themselves.
  void set_values(std::vector<at::Tensor> values) { values_ = std::move(values); }
  /// Called when all is reduced, before gradients go to those who read them; when a
  /// pass in a pause has ended, if parameters hold copies; and when either has failed.
  void set_before_give_back(std::function<void()> f) {
    before_give_back_ = std::move(f);
  }
  /// Called on all ranks at the end of a round, shadows included, if one of them has
  /// called meet() before it.
  void set_at_meeting(std::function<void()> f) { at_meeting_ = std::move(f); }
  void meet() { meets_ = true; }
  /// Asked at the end of a backward that left parameters without a gradient.
  void set_exemptions(Exemptions* exemptions) { exemptions_ = exemptions; }

  /// A round has begun and not ended.
  bool is_open() const { return state_ != State::Idle; }
  /// One has failed, and the group was not replaced since.
  bool has_failed() const { return state_ == State::Failed; }
  /// A round by hand: gradients that become ready count from open() on; close() says
  /// that all are there, finish() waits for their reduction.
  void open();
  void open(autograd::GradientStore& store);
  void close();
  void finish();
  /// The pass has failed, for that reason: unless the round has ended, tells the others
  /// not to wait for the rest of it, and stops what was launched.
  void abandon(const std::string& why = "") noexcept;
  /// Begins a round at the start of a pass, before its first gradient.
  void begin_pass();

  /// A round of a rank that has no more inputs: takes part with zeros. False if no rank
  /// has any, and then nothing was changed.
  bool shadow();

  /// Parameters whose gradients are complete only at finish(): pipelines have such.
  void leave_to_finish(const std::vector<at::Tensor>& leaves);
  /// In a pause, at the end of a step: these are complete as far as the step goes, and
  /// are added up in the dtype that they are reduced in.
  void keep_for_finish(autograd::GradientStore& store);

  /// After a failure, or with other ranks: goes on over another group, with the order
  /// of buckets and the number of rounds of its first rank. Collective.
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
  /// The parameters in the order in which their gradients came in the last round, and
  /// in which buckets are planned.
  const std::vector<int>& ready_order() const { return order_; }
  const std::vector<int>& planned_order() const { return planned_order_; }
  /// Whether nobody has changed the gradient since it was reduced; known with the
  /// option `norm`.
  bool is_as_reduced(size_t parameter) const;
  /// Whether a gradient came for the parameter that no round has reduced yet.
  bool is_unreduced(size_t parameter) const { return slots_[parameter].used; }

  void ready(size_t parameter) override;

 private:
  /// The round that runs.
  enum class State {
    Idle,
    Open,    // gradients come, and full buckets leave
    Ending,  // backward has ended: what is left goes by finish()
    Shadow,  // this rank has no inputs
    Failed,  // stays so until the group is replaced
  };
  /// What is known of the graphs that backward runs.
  enum class Graph { Changes, Counting, Counted };
  /// How far a gradient is in the round that runs.
  enum class Progress : uint8_t {
    Awaited,
    Absent,  // none is to come: it holds nobody up
    Ready,   // in its place; the pass may add to it until its bucket leaves
  };
  /// Who brings a gradient.
  enum class Source : uint8_t {
    Outputs,  // the graph behind the outputs of a forward
    Outside,  // another graph as well, as was seen once
    Finish,   // it is complete only at finish()
  };
  struct Slot {
    Progress progress = Progress::Awaited;
    Source source = Source::Outputs;
    /// A gradient came since the last round.
    bool used = false;
    /// How often the pass still calls its hook.
    int32_t waits = 1;
    /// How often a pass does; counted in the first round of a static graph.
    int32_t calls = 0;
  };
  /// A gradient as a round has left it.
  struct Reduced {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    int64_t version = -1;
  };

  /// What a pass holds, which may outlive this.
  struct Self {
    std::mutex mutex;
    Reducer* reducer = nullptr;
  };

  // reducer.cpp: the rounds.
  void enter_pass();
  void leave_pass();
  void leave_failed_pass(const std::string& why) noexcept;
  void forget_pass();
  [[noreturn]] void refuse_pass(const std::string& name);
  void begin(autograd::GradientStore& store, State state);
  void put_back_after_failure() noexcept;
  void count_down(size_t parameter);
  void take(size_t parameter, Progress progress);
  void take_unexpected(size_t parameter);
  void launch_full();
  void launch(size_t bucket, bool now);
  void end_pass();
  void end_round();
  void take_missing();
  void check_missing(const std::vector<size_t>& missing);
  [[noreturn]] void refuse_another(size_t parameter) const;
  void check_early_end() const;
  size_t bucket_of(size_t parameter) const;
  /// Whether the pass that runs leads to it, as far as this rank knows.
  bool is_reached(size_t parameter) const;
  std::vector<uint8_t> flags_of(size_t bucket);

  // reducer_gradients.cpp: gradients and their places.
  void leave_places(autograd::GradientStore& store);
  void bring(size_t parameter, autograd::GradientStore& store);
  void put(size_t parameter);
  void check_finite(size_t parameter);
  void give_back();
  void give_back(size_t parameter);
  void warn_of_graph(size_t parameter);
  std::optional<Reduced> mark_reduced(size_t parameter) const;
  std::vector<int> order_of_round() const;
  void plan_buckets(const std::vector<int>& order);
  bool wants_rebuild();
  void rebuild();
  void agree_on_order();
  ParameterSize size_of(const Parameter& parameter) const;

  std::vector<Parameter> parameters_;
  DataParallelOptions options_;
  Rounds rounds_by_;
  std::vector<ParameterSize> sizes_;
  std::vector<Slot> slots_;
  Buckets buckets_;
  std::unique_ptr<FlatGradients> gradients_;
  std::unique_ptr<BucketComm> comm_;
  Exemptions* exemptions_ = nullptr;
  std::function<void()> before_give_back_;
  std::function<void()> at_meeting_;
  int paused_ = 0;
  std::shared_ptr<Self> self_ = std::make_shared<Self>();
  /// Where the pass that has come puts gradients, until it ends.
  std::atomic<autograd::GradientStore*> store_of_pass_{nullptr};
  std::mutex entry_;  // for who comes and does not go on
  std::string name_of_pass_;
  /// Grows with each that comes, so that what an old one leaves does not count.
  std::atomic<uint64_t> pass_{0};
  /// Another one has come meanwhile.
  std::atomic<bool> refused_{false};
  /// It is one in a pause, and parameters hold copies.
  bool in_paused_pass_ = false;
  int64_t weight_ = 1;
  JoinOptions join_;
  std::vector<int64_t> last_active_;
  /// Gradients go to their places in buckets. A rank that is alone, and does nothing
  /// with them, leaves them where they are.
  bool uses_places_ = true;
  std::vector<uint8_t> reached_;
  std::vector<at::Tensor> values_;
  Graph graph_ = Graph::Changes;
  bool warned_of_graph_ = false;

  // The round that runs.
  std::atomic<State> state_{State::Idle};  // others may look whether one runs
  autograd::GradientStore* store_ = &autograd::grad_field();
  std::vector<int> pending_;
  size_t next_ = 0;
  /// In which gradients came, and as buckets were planned.
  std::vector<int> order_;
  std::vector<int> planned_order_;
  std::vector<int> wanted_order_;
  size_t awaited_ = 0;
  /// A gradient came that no output leads to.
  bool unexpected_ = false;
  bool meets_ = false;
  int64_t round_ = 0;
  int rebuilds_ = 0;
  int64_t next_rebuild_ = 0;
  RoundStats stats_;
  /// By parameter, with the option `norm`.
  std::vector<std::optional<Reduced>> reduced_;
  std::unique_ptr<ReadyHooks> hooks_;  // last: they call this
};

}  // namespace trireme::dp
