// Local SGD: ranks step by themselves and average their parameters now and then.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"
#include "trireme/dp/comm_hook.h"

namespace trireme::dp {

/// When gradients stop being averaged over all ranks.
struct PostLocalSgdOptions {
  /// Rounds over all ranks before. They are counted from the start of the program: to
  /// go on with a training that has passed them, give 0.
  int64_t start_round = 0;
  /// Ranks that go on sharing gradients, such as those of one host; nobody if there is
  /// no group.
  comm::Group subgroup{};
};

/// Averages gradients over all ranks, and from start_round on over the subgroup alone.
/// Use it with one of the averagers below, so that ranks do not drift apart. Collective
/// over the subgroup. Only for Reduction::Mean: sums, weights and ranks without inputs
/// are about all ranks.
///
///     dp::make_post_local_sgd_hook({.start_round = 100, .subgroup = host})
std::shared_ptr<CommHook> make_post_local_sgd_hook(const PostLocalSgdOptions& options);

/// When parameters are averaged.
struct PeriodicOptions {
  /// Every so many steps.
  int64_t period = 1;
  /// Steps before the first period begins: those with gradients of all ranks, after
  /// which parameters are equal anyway.
  int64_t warm_up_steps = 0;
};

/// Averages parameters over a group every `period` steps.
///
///     dp::PeriodicAverager averager(model->parameters(), world, {.period = 4});
///     optimizer.step();
///     averager.after_step();   // on all ranks
class PeriodicAverager {
 public:
  PeriodicAverager(
      std::vector<at::Tensor> parameters,
      const comm::Group& group,
      const PeriodicOptions& options);

  /// Counts a step of the optimizer. True if it averaged; that is collective.
  bool after_step();

  /// Steps so far; save it and set it to go on later.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps);

 private:
  std::vector<at::Tensor> parameters_;
  comm::Group group_;
  PeriodicOptions options_;
  int64_t steps_ = 0;
};

/// When parameters are averaged over how many ranks.
struct HierarchicalOptions {
  /// Period -> ranks of a group. Both grow; each group is made of whole ones of the
  /// level below, and the last one is everybody.
  std::map<int64_t, int> levels{};
  int64_t warm_up_steps = 0;
};

/// Averages over small groups often and over large ones rarely: a step that several
/// periods divide is averaged at the level of the largest. Groups are ranks that follow
/// one another, such as those of one host.
///
///     // Pairs every 2 steps, fours every 4, all 8 every 16.
///     dp::HierarchicalAverager averager(
///         model->parameters(), world, {.levels = {{2, 2}, {4, 4}, {16, 8}}});
class HierarchicalAverager {
 public:
  /// Collective.
  HierarchicalAverager(
      std::vector<at::Tensor> parameters,
      const comm::Group& group,
      const HierarchicalOptions& options);

  /// Counts a step of the optimizer. The period that was used, or 0 if it did not
  /// average; collective in the group of that period.
  int64_t after_step();

  /// Steps so far; save it and set it to go on later.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps);

 private:
  std::vector<at::Tensor> parameters_;
  std::map<int64_t, comm::Group> groups_;
  int64_t warm_up_steps_ = 0;
  int64_t steps_ = 0;
};

}  // namespace trireme::dp
