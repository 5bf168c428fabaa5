// A hook that sends gradients as products of two thin matrices (Vogels, Karimireddy and
// Jaggi, "PowerSGD: practical low-rank gradient compression", 2019).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/dp/comm_hook.h"

namespace trireme::dp {

/// How PowerSGD compresses. All ranks give the same.
struct PowerSgdOptions {
  /// Columns of the thin matrices: more are slower and more exact.
  int64_t rank = 1;
  /// Rounds that are reduced in full before: training is most sensitive at its start.
  /// Any number will do, because state is kept by parameter and not by bucket: buckets
  /// may change afterwards.
  int64_t start_round = 0;
  /// Add what compression took away to the next round's gradients. Costs the memory of
  /// the gradients; without it, training may not converge.
  bool error_feedback = true;
  /// Begin with the last round's matrices in place of random ones.
  bool warm_start = true;
  /// Compress a gradient only if that sends so many times fewer numbers.
  double min_compression_rate = 2;
  /// Of the random matrices.
  uint64_t seed = 0;
  /// Added to the lengths that vectors are divided by.
  double epsilon = 0;
};

/// Sends a gradient M of n rows (its first dimension) and m columns (all others) as
/// P (n x r) and Q (m x r), r = min(n, m, rank), if (n + m) * r * min_compression_rate
/// is below n * m; biases and other small ones are sent in full, all together. One
/// round of a bucket: P = M Q is reduced and made orthogonal, Q = M^T P is reduced, and
/// P Q^T is the gradient. Three reductions a bucket, whatever the number of parameters.
///
/// It takes the place of the reduction: from start_round on, hooks after it are not
/// run. Means, sums and means by weight all work, because both reductions are linear.
/// All ranks get the same bits. A gradient with NaN or infinity comes out as NaN and
/// leaves nothing behind for later rounds.
///
///     auto hook = dp::make_power_sgd_hook({.rank = 4, .start_round = 100});
///     dp::DataParallel model(net, group, {.hooks = {hook}});
class PowerSgdHook final : public CommHook {
 public:
  explicit PowerSgdHook(const PowerSgdOptions& options = {});

  std::string name() const override;
  void run(GradBucket& bucket, const Next& next) override;

  /// Everything that training needs to go on in another process as if nothing had
  /// happened. Each rank has its own; between backwards alone.
  using State = std::vector<std::pair<std::string, at::Tensor>>;
  State state() const;
  void load_state(const State& state);

 private:
  /// What is kept of a parameter.
  struct Memory {
    at::Tensor error;
    at::Tensor q;
  };
  struct Matrix;
  int64_t round_of(const GradBucket& bucket);
  std::vector<Matrix> matrices(GradBucket& bucket, std::vector<at::Tensor>& others);
  void add_error(Matrix& matrix) const;
  void choose_q(Matrix& matrix, int64_t round) const;
  void reduce_matrices(GradBucket& bucket, std::vector<Matrix>& all, int64_t round);
  void keep(const Matrix& matrix) const;

  PowerSgdOptions options_;
  std::map<size_t, Memory> memory_;
  /// Rounds since training began, where a DataParallel counts its own.
  int64_t rounds_ = 0;
  int64_t before_ = 0;
  bool loaded_ = false;
};

std::shared_ptr<PowerSgdHook> make_power_sgd_hook(const PowerSgdOptions& options = {});

}  // namespace trireme::dp
