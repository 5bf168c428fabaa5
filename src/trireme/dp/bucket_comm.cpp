#include "trireme/dp/bucket_comm.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/torch_threads.h"
#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/core/log.h"
#include "trireme/dp/riders.h"

namespace trireme::dp {

using comm::ReduceOp;

BucketComm::BucketComm(
    const comm::Group& group,
    const std::vector<Parameter>& parameters,
    const DataParallelOptions& options,
    RiderPlan riders)
    : group_(group),
      parameters_(parameters),
      options_(options),
      riders_(riders),
      notes_(group, parameters),
      worker_(
          [rank = group.rank(),
           size = group.size(),
           threads = comm::settle_torch_threads()] {
            set_log_rank(rank, size);
            at::set_num_threads(threads);  // each thread has its own number
          },
          group.size() == 1 ? comm::Worker::Idle{}
                            : comm::Worker::Idle{notes_.every(), [this] {
                                                   notes_.tell_if_stalled();
                                                 }}) {}

BucketComm::~BucketComm() {
  // What is under way uses the buckets; it ends by its own deadline.
  worker_.drain();
  for (const comm::Work& work : works_)
    try {
      work.wait();
    } catch (...) {
      continue;  // of a round that failed: told already
    }
}

void BucketComm::use(FlatGradients& gradients) {
  gradients_ = &gradients;
  notes_.use(gradients.layout());
  first_dense_ = last_dense_ = -1;
  const auto& buckets = gradients.layout().buckets;
  for (size_t b = 0; b < buckets.size(); ++b)
    if (gradients.bucket(b).defined()) {
      last_dense_ = static_cast<int>(b);
      first_dense_ = first_dense_ < 0 ? last_dense_ : first_dense_;
    }
  sparse_.assign(buckets.size(), {});
  times_.assign(buckets.size(), {});
  for (size_t b = 0; b < buckets.size(); ++b)
    if (gradients.bucket(b).defined())
      times_[b].bytes = static_cast<int64_t>(gradients.bucket(b).nbytes());
}

void BucketComm::begin(RoundPlan plan) {
  plan_ = std::move(plan);
  scale_ = options_.reduction == Reduction::WeightedMean && is_narrow() ? 0 : 1;
  notes_.begin();
  outcome_ = {};
  outcome_.used.assign(riders_.used > 0 ? parameters_.size() : 0, 0);
  outcome_.squares.assign(options_.norm ? parameters_.size() : 0, 0.0);
  std::fill(sparse_.begin(), sparse_.end(), SparseGradient());
  failed_ = false;
}

void BucketComm::write_riders(size_t bucket, std::span<const uint8_t> flags) {
  write_flags(gradients_->riders(bucket), flags);
}

void BucketComm::set_sparse(size_t bucket, SparseGradient gradient) {
  sparse_[bucket] = std::move(gradient);
}

void BucketComm::launch(size_t bucket) {
  if (group_.size() == 1)
    return run_now(bucket);  // there is nobody to wait for
  works_.push_back(worker_.push([this, bucket] { reduce(bucket); }));
}

void BucketComm::run_now(size_t bucket) {
  worker_.drain();
  for (const comm::Work& work : std::exchange(works_, {}))
    work.wait();
  reduce(bucket);
}

void BucketComm::finish() {
  for (const comm::Work& work : std::exchange(works_, {}))
    work.wait();
  if (outcome_.unexpected)
    reduce_skipped();
  notes_.end();
  scale_sparse();
}

/// A gradient came where no rank had expected one: what was left out is made up for.
void BucketComm::reduce_skipped() {
  outcome_.reached.clear();
  for (size_t b = 0; b < times_.size(); ++b)
    if (times_[b].skipped)
      reduce(b);
}

void BucketComm::fail(const std::string& why) {
  failed_ = true;
  notes_.end();
  if (group_.size() > 1)
    group_.abort(why);
}

ReduceOp BucketComm::op() const {
  return options_.reduction == Reduction::Mean && !plan_.by_active ? ReduceOp::Mean
                                                                   : ReduceOp::Sum;
}

/// What a sum is divided by.
double BucketComm::divisor() const {
  if (options_.reduction == Reduction::WeightedMean)
    return static_cast<double>(std::max<int64_t>(1, outcome_.total_weight)) / scale_;
  if (options_.reduction == Reduction::Mean && plan_.by_active)
    return static_cast<double>(std::max<int64_t>(
        1, std::count_if(outcome_.active.begin(), outcome_.active.end(), [](int64_t n) {
          return n > 0;
        })));
  return 1;
}

at::Tensor BucketComm::values(size_t bucket) const {
  const BucketRange& range = gradients_->layout().buckets[bucket];
  return gradients_->bucket(bucket).narrow(0, 0, range.riders_begin - range.begin);
}

bool BucketComm::skips(size_t bucket) const {
  const auto& buckets = gradients_->layout().buckets;
  return options_.find_unused && !outcome_.reached.empty() &&
         std::all_of(
             buckets[bucket].parameters.begin(),
             buckets[bucket].parameters.end(),
             [&](int i) { return outcome_.reached[static_cast<size_t>(i)] == 0; });
}

void BucketComm::reduce(size_t bucket) {
  if (failed_)
    return;  // the first error is what counts
  BucketTime& time = times_[bucket];
  time.start_ns = now_ns();
  time.skipped = skips(bucket);
  try {
    if (scale_ == 0)
      agree_on_scale();
    if (gradients_->layout().buckets[bucket].sparse)
      reduce_rows(bucket);
    else if (gradients_->bucket(bucket).defined())
      reduce_dense(bucket);
  } catch (...) {
    failed_ = true;
    rethrow(bucket);
  }
  time.end_ns = now_ns();
  notes_.moved();
}

void BucketComm::reduce_rows(size_t bucket) {
  if (times_[bucket].skipped)
    return;
  const BucketRange& range = gradients_->layout().buckets[bucket];
  const auto parameter = static_cast<size_t>(range.parameters[0]);
  SparseGradient mine = sparse_[bucket];
  if (options_.reduction == Reduction::WeightedMean && mine.rows.defined())
    // What weighs nothing must not even bring its NaN.
    mine.rows = plan_.weight == 0
                    ? at::Tensor()
                    : mine.rows.mul(static_cast<double>(plan_.weight) / scale_);
  sparse_[bucket] = reduce_sparse(
      group_, mine, parameters_[parameter].tensor.sizes(), range.dtype, op());
  times_[bucket].bytes = static_cast<int64_t>(sparse_[bucket].rows._values().nbytes());
  if (riders_.used > 0)
    outcome_.used[parameter] = sparse_[bucket].used ? 1 : 0;
}

void BucketComm::reduce_dense(size_t bucket) {
  const at::Tensor& riders = gradients_->riders(bucket);
  const bool skipped = times_[bucket].skipped;
  if (skipped && static_cast<int>(bucket) != last_dense_)
    return;
  const bool apart = skipped || !options_.hooks.empty();
  if (!skipped)
    weigh(values(bucket));
  if (group_.size() > 1 && (!apart || riders.numel() > 0))
    comm::all_reduce(group_, apart ? riders : gradients_->bucket(bucket), {.op = op()});
  read_riders(bucket);
  // Without inputs anywhere there is a bucket that only says so: hooks keep state.
  if (skipped || !has_inputs_somewhere())
    return;
  GradBucket passed(group_);
  if (apart)
    run_hooks(bucket, passed);
  if (const double by = divisor(); by != 1)
    values(bucket).div_(by);
  if (options_.norm)
    add_squares(bucket);
  run_after(passed);
}

/// As often as this rank's weight says.
void BucketComm::weigh(const at::Tensor& gradients) const {
  if (options_.reduction != Reduction::WeightedMean)
    return;
  // NaN times 0 is NaN, but what weighs nothing must change nothing.
  if (plan_.weight == 0)
    gradients.zero_();
  else
    gradients.mul_(static_cast<double>(plan_.weight) / scale_);
}

/// Whether gradients times their weights may be too large for what they are reduced in.
bool BucketComm::is_narrow() const {
  const auto& buckets = gradients_->layout().buckets;
  return std::any_of(
             buckets.begin(),
             buckets.end(),
             [](const BucketRange& range) { return range.dtype == at::kHalf; }) ||
         std::any_of(
             options_.hooks.begin(), options_.hooks.end(), [](const auto& hook) {
               return hook->is_narrow();
             });
}

/// Weights that add up to no more than 1 keep the sum as small as the gradients.
/// Divided by a power of two, they change no bit of what is not close to 0.
void BucketComm::agree_on_scale() {
  const at::Tensor total =
      at::full({1}, plan_.weight, at::TensorOptions().dtype(at::kLong));
  comm::all_reduce(group_, total);
  scale_ = static_cast<double>(std::bit_ceil(
      static_cast<uint64_t>(std::max<int64_t>(1, total.item<int64_t>()))));
}

bool BucketComm::has_inputs_somewhere() const {
  return outcome_.active.empty() ||
         std::any_of(outcome_.active.begin(), outcome_.active.end(), [](int64_t n) {
           return n > 0;
         });
}

GradBucket::Entry BucketComm::entry_of(size_t parameter) const {
  return {
      .parameter = parameter,
      .info = &parameters_[parameter],
      .gradient = gradients_->view(parameter),
      .values = plan_.values.empty() ? parameters_[parameter].tensor
                                     : plan_.values[parameter]};
}

void BucketComm::run_hooks(size_t bucket, GradBucket& passed) {
  const BucketRange& range = gradients_->layout().buckets[bucket];
  const at::Tensor gradients = values(bucket);
  passed.index_ = bucket;
  passed.is_last_ = static_cast<int>(bucket) == last_dense_;
  passed.round_ = plan_.round;
  passed.buffer_ = gradients;
  passed.op_ = op();
  for (const int i : range.parameters) {
    const auto parameter = static_cast<size_t>(i);
    passed.entries_.push_back(entry_of(parameter));
    passed.entries_.back().begin =
        gradients_->layout().places[parameter].begin - range.begin;
  }
  call_hook(passed, 0, gradients.numel());
  if (!passed.buffer_.is_same(gradients))
    gradients.copy_(passed.buffer_);
  passed.buffer_ = gradients;
}

void BucketComm::run_after(GradBucket& passed) {
  for (GradBucket::Entry& entry : passed.entries_)
    entry.used = outcome_.used.empty() || outcome_.used[entry.parameter] > 0;
  for (const auto& hook : options_.hooks)
    hook->after(passed);
  outcome_.dropped.insert(
      outcome_.dropped.end(), passed.dropped_.begin(), passed.dropped_.end());
}

void BucketComm::call_hook(GradBucket& bucket, size_t hook, int64_t elements) {
  const CommHooks& hooks = options_.hooks;
  if (hook == hooks.size())
    return bucket.reduce(bucket.buffer_);
  hooks[hook]->run(
      bucket, [&](GradBucket& passed) { call_hook(passed, hook + 1, elements); });
  if (!bucket.buffer_.defined() || bucket.buffer_.numel() != elements)
    throw InvalidArgument(text(
        "[dp] expected the hook ",
        hooks[hook]->name(),
        " to leave a buffer of ",
        elements,
        " elements, got ",
        bucket.buffer_.defined() ? text(bucket.buffer_.numel()) : text("none"),
        "; keep the size of what it was given"));
}

/// What rode on this bucket.
void BucketComm::read_riders(size_t bucket) {
  const at::Tensor& riders = gradients_->riders(bucket);
  if (riders.numel() == 0)
    return;
  const std::vector<int64_t> counts =
      read_counts(riders, op() == ReduceOp::Mean ? group_.size() : 1);
  auto next = counts.begin();
  const auto take = [&](int64_t flags) {
    const auto begin = std::exchange(next, next + flags);
    return std::vector<int64_t>(begin, next);
  };
  if (static_cast<int>(bucket) == first_dense_) {
    outcome_.active = take(riders_.active);
    outcome_.total_weight = sum_of_bits(take(riders_.weight));
    outcome_.reached = take(riders_.reached);
  }
  if (riders_.used > 0)
    for (const int i : gradients_->layout().buckets[bucket].parameters)
      outcome_.used[static_cast<size_t>(i)] = *next++;
  if (static_cast<int>(bucket) == last_dense_ && riders_.ends > 0) {
    outcome_.rebuild = *next++ > 0;
    outcome_.unexpected = *next++ > 0;
    outcome_.meet = *next++ > 0;
  }
}

void BucketComm::add_squares(size_t bucket) {
  for (const int i : gradients_->layout().buckets[bucket].parameters) {
    const at::Tensor& view = gradients_->view(static_cast<size_t>(i));
    const at::Tensor norm = at::norm(view.is_complex() ? at::view_as_real(view) : view);
    const auto value = norm.item<double>();
    outcome_.squares[static_cast<size_t>(i)] = value * value;
  }
}

/// Afterwards, since a sparse bucket may come before the one that brings the weights.
void BucketComm::scale_sparse() {
  if (first_dense_ < 0 && options_.reduction == Reduction::WeightedMean) {
    // Nothing has brought them.
    const at::Tensor total =
        at::full({1}, plan_.weight, at::TensorOptions().dtype(at::kLong));
    comm::all_reduce(group_, total);
    outcome_.total_weight = total.item<int64_t>();
  }
  const double by = divisor();
  for (size_t b = 0; b < sparse_.size(); ++b)
    if (const at::Tensor& rows = sparse_[b].rows;
        rows.defined() && !times_[b].skipped) {
      if (by != 1)
        rows._values().div_(by);
      const auto parameter =
          static_cast<size_t>(gradients_->layout().buckets[b].parameters[0]);
      if (options_.norm) {
        const auto norm = at::norm(rows._values()).item<double>();
        outcome_.squares[parameter] = norm * norm;
      }
      if (options_.hooks.empty())
        continue;
      GradBucket passed(group_);
      passed.index_ = b;
      passed.round_ = plan_.round;
      passed.op_ = op();
      passed.entries_.push_back(entry_of(parameter));
      passed.entries_.back().gradient = rows;
      run_after(passed);
    }
}

/// Says which bucket it was, and tells the others if they do not know.
void BucketComm::rethrow(size_t bucket) {
  std::vector<std::string> names;
  for (const int i : gradients_->layout().buckets[bucket].parameters)
    names.push_back(parameters_[static_cast<size_t>(i)].name);
  const std::string where = text(
      " (while bucket ",
      bucket,
      " of ",
      gradients_->buckets(),
      " was reduced; its parameters: ",
      list_names(names),
      ")");
  try {
    throw;
  } catch (const PeerError& error) {
    throw PeerError(error.rank(), error.what() + where);
  } catch (const TimeoutError& error) {
    fail(error.what() + where);
    throw TimeoutError(error.what() + where);
  } catch (const InvalidArgument& error) {
    fail(error.what() + where);
    throw InvalidArgument(error.what() + where);
  } catch (const std::exception& error) {
    fail(error.what() + where);
    throw;
  } catch (...) {
    fail("[dp] a hook threw something that is no exception" + where);
    throw;
  }
}

}  // namespace trireme::dp
