#include "trireme/dp/local_sgd.h"

#include <utility>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/dp/verify.h"

namespace trireme::dp {
namespace {

class PostLocalSgdHook final : public CommHook {
 public:
  explicit PostLocalSgdHook(const PostLocalSgdOptions& options)
      : start_round_(options.start_round) {
    // Of its own: hooks run while the program may use the subgroup as well.
    if (options.subgroup)
      subgroup_ = options.subgroup.split(0, options.subgroup.rank());
  }

  std::string name() const override {
    return text("post_local_sgd from round ", start_round_);
  }

  void run(GradBucket& bucket, const Next& next) override {
    if (bucket.round() < start_round_ || bucket.group().size() == 1)
      return next(bucket);
    if (bucket.op() != comm::ReduceOp::Mean)
      throw InvalidArgument(
          "[dp] expected a mean over all ranks for local SGD, got a sum, weights, or "
          "ranks without inputs; use Reduction::Mean and divide by all ranks");
    if (subgroup_)
      comm::all_reduce(subgroup_, bucket.buffer(), {.op = comm::ReduceOp::Mean});
  }

 private:
  int64_t start_round_;
  comm::Group subgroup_;
};

void check_at_least(const char* what, int64_t value, int64_t least) {
  if (value < least)
    throw InvalidArgument(text(
        "[dp] expected ",
        what,
        " of at least ",
        least,
        ", got ",
        value,
        "; correct the number"));
}

void check_parameters_given(const std::vector<at::Tensor>& parameters) {
  if (parameters.empty())
    throw InvalidArgument(
        "[dp] expected parameters to average, got none; give those of the model");
}

void check_levels(const comm::Group& group, const std::map<int64_t, int>& levels) {
  int below = 1;
  for (const auto& [period, ranks] : levels) {
    check_at_least("a period", period, 1);
    check_at_least("a group size", ranks, 1);
    if (ranks % below != 0 || (ranks == below && below > 1))
      throw InvalidArgument(text(
          "[dp] expected groups made of whole groups of the level below, got ",
          ranks,
          " ranks above ",
          below,
          "; let each size be a multiple of the one before"));
    below = ranks;
  }
  if (levels.empty() || below != group.size())
    throw InvalidArgument(text(
        "[dp] expected the last level to be all ",
        group.size(),
        " ranks, got ",
        levels.empty() ? 0 : below,
        "; give the longest period the size of the world"));
}

}  // namespace

std::shared_ptr<CommHook> make_post_local_sgd_hook(const PostLocalSgdOptions& options) {
  check_at_least("a start_round", options.start_round, 0);
  return std::make_shared<PostLocalSgdHook>(options);
}

PeriodicAverager::PeriodicAverager(
    std::vector<at::Tensor> parameters,
    const comm::Group& group,
    const PeriodicOptions& options)
    : parameters_(std::move(parameters)), group_(group), options_(options) {
  check_parameters_given(parameters_);
  check_at_least("a period", options.period, 1);
  check_at_least("warm_up_steps", options.warm_up_steps, 0);
}

bool PeriodicAverager::after_step() {
  const int64_t since = ++steps_ - options_.warm_up_steps;
  if (since <= 0 || since % options_.period != 0)
    return false;
  average_values(group_, parameters_);
  return true;
}

void PeriodicAverager::set_steps(int64_t steps) {
  check_at_least("a number of steps", steps, 0);
  steps_ = steps;
}

HierarchicalAverager::HierarchicalAverager(
    std::vector<at::Tensor> parameters,
    const comm::Group& group,
    const HierarchicalOptions& options)
    : parameters_(std::move(parameters)), warm_up_steps_(options.warm_up_steps) {
  check_parameters_given(parameters_);
  check_at_least("warm_up_steps", options.warm_up_steps, 0);
  check_levels(group, options.levels);
  for (const auto& [period, ranks] : options.levels)
    groups_.emplace(
        period,
        ranks == group.size() ? group
                              : group.split(group.rank() / ranks, group.rank()));
}

int64_t HierarchicalAverager::after_step() {
  const int64_t since = ++steps_ - warm_up_steps_;
  if (since <= 0)
    return 0;
  for (auto level = groups_.rbegin(); level != groups_.rend(); ++level)
    if (since % level->first == 0) {
      average_values(level->second, parameters_);
      return level->first;
    }
  return 0;
}

void HierarchicalAverager::set_steps(int64_t steps) {
  check_at_least("a number of steps", steps, 0);
  steps_ = steps;
}

}  // namespace trireme::dp
