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
#include "trireme/dp/options.h"
#include "trireme/dp/round_stats.h"
#include "trireme/dp/sparse_reduce.h"
#include "trireme/dp/stall_notes.h"

namespace trireme::dp {

/// What one round has that others have not.
struct RoundPlan {
  /// Rounds before it.
  int64_t round = 0;
  /// Of this rank; for a weighted mean.
  int64_t weight = 1;
  /// Divide a mean by the ranks that still have inputs, not by all.
  bool by_active = false;
  /// What optimizers step, by parameter; empty: the parameters themselves.
  std::vector<at::Tensor> values{};
};

/// What rides on buckets; flags, one an element.
struct RiderPlan {
  /// One after the other in the first bucket: which ranks are active, the weight's
  /// bits, which parameters were reached.
  int64_t active = 0;
  int64_t weight = 0;
  int64_t reached = 0;
  /// In every bucket, 1 a parameter: whether it was used.
  int64_t used = 0;
  /// In the last: whether to rebuild, whether a gradient came that nobody had expected,
  /// whether to meet after the round.
  int64_t ends = 0;
  RiderRoom room() const {
    return {.first = active + weight + reached, .parameter = used, .last = ends};
  }
};
/// How many flags `ends` has.
inline constexpr int64_t kEndFlags = 3;

/// What a round has found out beside the gradients.
struct RoundOutcome {
  std::vector<int64_t> active;
  int64_t total_weight = 0;
  /// How many ranks had reached, and used, each parameter; of those that list rows only
  /// whether some were used. Empty if it was not asked for.
  std::vector<int64_t> reached;
  std::vector<int64_t> used;
  bool rebuild = false;
  /// A rank had a gradient in a bucket that no rank was to reach.
  bool unexpected = false;
  /// A rank wants all of them to meet after the round.
  bool meet = false;
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
      const DataParallelOptions& options,
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

  void begin(RoundPlan plan);
  /// What rides on a bucket, in the order of the plan; before it is launched.
  void write_riders(size_t bucket, std::span<const uint8_t> flags);
  /// The gradient of a sparse bucket.
  void set_sparse(size_t bucket, SparseGradient gradient);

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
  const at::Tensor& sparse_result(size_t bucket) const { return sparse_[bucket].rows; }
  /// When each bucket began and ended; the reducer fills in the rest.
  std::vector<BucketTime>& times() { return times_; }

 private:
  void reduce(size_t bucket);
  void reduce_dense(size_t bucket);
  void reduce_rows(size_t bucket);
  void weigh(const at::Tensor& gradients) const;
  bool is_narrow() const;
  void agree_on_scale();
  void run_hooks(size_t bucket, GradBucket& passed);
  void run_after(GradBucket& passed);
  void call_hook(GradBucket& bucket, size_t hook, int64_t elements);
  void read_riders(size_t bucket);
  void reduce_skipped();
  GradBucket::Entry entry_of(size_t parameter) const;
  bool has_inputs_somewhere() const;
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
  const DataParallelOptions& options_;
  RiderPlan riders_;
  FlatGradients* gradients_ = nullptr;
  int first_dense_ = -1;
  int last_dense_ = -1;
  RoundPlan plan_;
  /// What weights are divided by: a power of two; 0 until the ranks have agreed on it.
  double scale_ = 1;
  RoundOutcome outcome_;
  std::vector<SparseGradient> sparse_;
  std::vector<BucketTime> times_;
  std::vector<comm::Work> works_;
  std::atomic<bool> failed_{false};
  StallNotes notes_;
  comm::Worker worker_;  // last: it ends before what it uses
};

}  // namespace trireme::dp
