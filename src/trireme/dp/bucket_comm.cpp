#include "trireme/dp/bucket_comm.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/dp/riders.h"
#include "trireme/dp/sparse_reduce.h"

namespace trireme::dp {

using comm::ReduceOp;

BucketComm::BucketComm(
    const comm::Group& group,
    const std::vector<Parameter>& parameters,
    CommHooks hooks,
    RiderPlan riders)
    : group_(group),
      parameters_(parameters),
      hooks_(std::move(hooks)),
      riders_(riders),
      notes_(group, parameters),
      worker_(
          [rank = group.rank(), size = group.size(), threads = at::get_num_threads()] {
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

void BucketComm::begin(const RoundPlan& plan) {
  plan_ = plan;
  notes_.begin();
  outcome_.active.clear();
  outcome_.reached.clear();
  outcome_.used.clear();
  outcome_.dropped.clear();
  outcome_.total_weight = 0;
  outcome_.rebuild = false;
  std::fill(sparse_.begin(), sparse_.end(), at::Tensor());
  outcome_.squares.assign(plan.norm ? parameters_.size() : 0, 0.0);
  failed_ = false;
}

void BucketComm::write_first(std::span<const uint8_t> flags) {
  if (first_dense_ >= 0)
    write_flags(
        gradients_->riders(static_cast<size_t>(first_dense_))
            .narrow(0, 0, riders_.first()),
        flags);
}

void BucketComm::write_last(std::span<const uint8_t> flags) {
  if (last_dense_ < 0)
    return;
  const at::Tensor& riders = gradients_->riders(static_cast<size_t>(last_dense_));
  write_flags(riders.narrow(0, riders.numel() - riders_.last(), riders_.last()), flags);
}

void BucketComm::set_sparse(size_t bucket, at::Tensor gradient) {
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
  notes_.end();
  scale_sparse();
}

void BucketComm::fail(const std::string& why) {
  failed_ = true;
  notes_.end();
  if (group_.size() > 1)
    group_.abort(why);
}

ReduceOp BucketComm::op() const {
  return plan_.reduction == Reduction::Mean && !plan_.by_active ? ReduceOp::Mean
                                                                : ReduceOp::Sum;
}

/// What a sum is divided by.
double BucketComm::divisor() const {
  if (plan_.reduction == Reduction::WeightedMean)
    return static_cast<double>(std::max<int64_t>(1, outcome_.total_weight));
  if (plan_.reduction == Reduction::Mean && plan_.by_active)
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
  return plan_.skip_unreached && !outcome_.reached.empty() &&
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
    if (gradients_->layout().buckets[bucket].sparse) {
      if (!time.skipped) {
        const auto parameter =
            static_cast<size_t>(gradients_->layout().buckets[bucket].parameters[0]);
        at::Tensor mine = sparse_[bucket];
        if (plan_.reduction == Reduction::WeightedMean && mine.defined())
          mine = mine.mul(static_cast<double>(plan_.weight));
        sparse_[bucket] =
            reduce_sparse(group_, mine, parameters_[parameter].tensor, op());
        time.bytes = static_cast<int64_t>(sparse_[bucket]._values().nbytes());
      }
    } else if (gradients_->bucket(bucket).defined()) {
      reduce_dense(bucket);
    }
  } catch (...) {
    failed_ = true;
    rethrow(bucket);
  }
  time.end_ns = now_ns();
  notes_.moved();
}

void BucketComm::reduce_dense(size_t bucket) {
  const ReduceOp how = op();
  const at::Tensor& riders = gradients_->riders(bucket);
  if (times_[bucket].skipped) {
    if (riders.numel() > 0 && group_.size() > 1)
      comm::all_reduce(group_, riders, {.op = how});
    return read_riders(bucket, how);
  }
  const at::Tensor gradients = values(bucket);
  if (plan_.reduction == Reduction::WeightedMean)
    gradients.mul_(static_cast<double>(plan_.weight));
  GradBucket passed(group_);
  if (!hooks_.empty()) {
    run_hooks(bucket, passed);
    if (riders.numel() > 0 && group_.size() > 1)
      comm::all_reduce(group_, riders, {.op = how});
  } else if (group_.size() > 1) {
    comm::all_reduce(group_, gradients_->bucket(bucket), {.op = how});
  }
  read_riders(bucket, how);
  if (const double by = divisor(); by != 1)
    gradients.div_(by);
  if (plan_.norm)
    add_squares(bucket);
  run_after(passed);
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
    passed.entries_.push_back(
        {.parameter = parameter,
         .info = &parameters_[parameter],
         .gradient = gradients_->view(parameter),
         .begin = gradients_->layout().places[parameter].begin - range.begin});
  }
  call_hook(passed, 0, gradients.numel());
  if (!passed.buffer_.is_same(gradients))
    gradients.copy_(passed.buffer_);
  passed.buffer_ = gradients;
}

void BucketComm::run_after(GradBucket& passed) {
  const std::vector<int64_t>& active = outcome_.active;
  // When all ranks are out of inputs, there is a bucket that only says so.
  if (!active.empty() && std::count(active.begin(), active.end(), 0) == group_.size())
    return;
  for (GradBucket::Entry& entry : passed.entries_)
    entry.reached = outcome_.reached.empty() || outcome_.reached[entry.parameter] > 0;
  for (const auto& hook : hooks_)
    hook->after(passed);
  outcome_.dropped.insert(
      outcome_.dropped.end(), passed.dropped_.begin(), passed.dropped_.end());
}

void BucketComm::call_hook(GradBucket& bucket, size_t hook, int64_t elements) {
  if (hook == hooks_.size())
    return bucket.reduce(bucket.buffer_);
  hooks_[hook]->run(
      bucket, [&](GradBucket& passed) { call_hook(passed, hook + 1, elements); });
  if (!bucket.buffer_.defined() || bucket.buffer_.numel() != elements)
    throw InvalidArgument(text(
        "[dp] expected the hook ",
        hooks_[hook]->name(),
        " to leave a buffer of ",
        elements,
        " elements, got ",
        bucket.buffer_.defined() ? text(bucket.buffer_.numel()) : text("none"),
        "; keep the size of what it was given"));
}

/// What rode on this bucket.
void BucketComm::read_riders(size_t bucket, ReduceOp how) {
  const int ranks = how == ReduceOp::Mean ? group_.size() : 1;
  const at::Tensor& riders = gradients_->riders(bucket);
  if (static_cast<int>(bucket) == first_dense_ && riders_.first() > 0) {
    const std::vector<int64_t> counts =
        read_counts(riders.narrow(0, 0, riders_.first()), ranks);
    const auto weight = counts.begin() + riders_.active;
    const auto reached = weight + riders_.weight;
    outcome_.active.assign(counts.begin(), weight);
    outcome_.total_weight = sum_of_bits(std::vector<int64_t>(weight, reached));
    outcome_.reached.assign(reached, counts.end());
  }
  if (static_cast<int>(bucket) == last_dense_ && riders_.last() > 0) {
    const std::vector<int64_t> counts = read_counts(
        riders.narrow(0, riders.numel() - riders_.last(), riders_.last()), ranks);
    outcome_.rebuild = riders_.rebuild > 0 && counts[0] > 0;
    outcome_.used.assign(counts.begin() + riders_.rebuild, counts.end());
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
  if (first_dense_ < 0 && plan_.reduction == Reduction::WeightedMean) {
    // Nothing has brought them.
    const at::Tensor total =
        at::full({1}, plan_.weight, at::TensorOptions().dtype(at::kLong));
    comm::all_reduce(group_, total);
    outcome_.total_weight = total.item<int64_t>();
  }
  const double by = divisor();
  for (size_t b = 0; b < sparse_.size(); ++b)
    if (sparse_[b].defined() && !times_[b].skipped) {
      if (by != 1)
        sparse_[b]._values().div_(by);
      const auto parameter =
          static_cast<size_t>(gradients_->layout().buckets[b].parameters[0]);
      if (plan_.norm) {
        const auto norm = at::norm(sparse_[b]._values()).item<double>();
        outcome_.squares[parameter] = norm * norm;
      }
      if (hooks_.empty() || times_[b].skipped)
        continue;
      GradBucket passed(group_);
      passed.index_ = b;
      passed.round_ = plan_.round;
      passed.op_ = op();
      passed.entries_.push_back(
          {.parameter = parameter,
           .info = &parameters_[parameter],
           .gradient = sparse_[b]});
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
