// The side of the reducer that talks to other ranks, on a thread of its own.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/comm/worker.h"
#include "trireme/dp/comm_hook.h"
#include "trireme/dp/flat_gradients.h"
#include "trireme/dp/round_stats.h"
#include "trireme/dp/stall_notes.h"

namespace trireme::dp {

/// How the gradients of the ranks become one.
enum class Reduction {
  Mean,
  Sum,
  /// Each rank's gradient counts as often as its weight says: the number of its samples
  /// or tokens.
  WeightedMean,
};

/// How one round is reduced.
struct RoundPlan {
  /// Rounds before it.
  int64_t round = 0;
  Reduction reduction = Reduction::Mean;
  /// Of this rank; for a weighted mean.
  int64_t weight = 1;
  /// Divide a mean by the ranks that still have inputs, not by all.
  bool by_active = false;
  /// Leave out buckets that no rank has reached.
  bool skip_unreached = false;
  /// Add up the squares of each gradient as it lands.
  bool norm = false;
};

/// What rides on the first bucket and on the last one; flags, one an element.
struct RiderPlan {
  /// Behind one another in the first bucket: which ranks are active, the weight's bits,
  /// which parameters were reached.
  int64_t active = 0;
  int64_t weight = 0;
  int64_t reached = 0;
  /// In the last: whether to rebuild, which parameters were used.
  int64_t rebuild = 0;
  int64_t used = 0;
  int64_t first() const { return active + weight + reached; }
  int64_t last() const { return rebuild + used; }
};

/// What a round has found out beside the gradients.
struct RoundOutcome {
  std::vector<int64_t> active;
  int64_t total_weight = 0;
  /// How many ranks had reached, and used, each parameter.
  std::vector<int64_t> reached;
  bool rebuild = false;
  std::vector<int64_t> used;
  /// Of each gradient, the sum of its squares; if the plan asks for a norm.
  std::vector<double> squares;
  /// Gradients that hooks have used up.
  std::vector<size_t> dropped;
};

/// Reduces the buckets of one reducer, strictly one after the other. launch() hands a
/// bucket to the thread; finish() waits.
class BucketComm {
 public:
  BucketComm(
      const comm::Group& group,
      const std::vector<Parameter>& parameters,
      CommHooks hooks,
      RiderPlan riders);
  ~BucketComm();
  BucketComm(const BucketComm&) = delete;
  BucketComm& operator=(const BucketComm&) = delete;

  const comm::Group& group() const { return group_; }
  const RiderPlan& riders() const { return riders_; }

  /// Where gradients are from now on.
  void use(FlatGradients& gradients);
  /// The number of the first dense bucket and of the last; -1 if there is none.
  int first_dense() const { return first_dense_; }
  int last_dense() const { return last_dense_; }

  void begin(const RoundPlan& plan);
  /// What rides on the first bucket and on the last; before they are launched.
  void write_first(std::span<const uint8_t> flags);
  void write_last(std::span<const uint8_t> flags);
  /// The gradient of a sparse bucket; undefined if there is none.
  void set_sparse(size_t bucket, at::Tensor gradient);

  /// Starts a bucket on the thread, or carries it out at once.
  void launch(size_t bucket);
  void run_now(size_t bucket);
  /// Waits for all that was launched; rethrows what went wrong.
  void finish();
  /// Tells the others that this rank cannot go on.
  void fail(const std::string& why);
  bool has_failed() const { return failed_; }
  /// A gradient is there.
  void arrived(size_t parameter) {
    if (group_.size() > 1)
      notes_.arrived(parameter);
  }
  /// Returns when the thread has nothing more to do. After a failure, so that this rank
  /// touches nobody's memory any more when it goes on.
  void drain() {
    worker_.drain();
    notes_.end();
  }

  const RoundOutcome& outcome() const { return outcome_; }
  const at::Tensor& sparse_result(size_t bucket) const { return sparse_[bucket]; }
  /// When each bucket began and ended; the reducer fills in the rest.
  std::vector<BucketTime>& times() { return times_; }

 private:
  void reduce(size_t bucket);
  void reduce_dense(size_t bucket);
  void run_hooks(size_t bucket, GradBucket& passed);
  void run_after(GradBucket& passed);
  void call_hook(GradBucket& bucket, size_t hook, int64_t elements);
  void read_riders(size_t bucket, comm::ReduceOp op);
  void add_squares(size_t bucket);
  void scale_sparse();
  [[noreturn]] void rethrow(size_t bucket);
  bool skips(size_t bucket) const;
  comm::ReduceOp op() const;
  double divisor() const;
  /// The bucket's gradients, without what rides on it.
  at::Tensor values(size_t bucket) const;

  comm::Group group_;
  const std::vector<Parameter>& parameters_;
  CommHooks hooks_;
  RiderPlan riders_;
  FlatGradients* gradients_ = nullptr;
  int first_dense_ = -1;
  int last_dense_ = -1;
  RoundPlan plan_;
  RoundOutcome outcome_;
  std::vector<at::Tensor> sparse_;
  std::vector<BucketTime> times_;
  std::vector<comm::Work> works_;
  std::atomic<bool> failed_{false};
  StallNotes notes_;
  comm::Worker worker_;  // last: it ends before what it uses
};

}  // namespace trireme::dp
