// A small regression for tests of hooks: several buckets, and another order after the
// first round.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"
#include "trireme/dp/replica.h"

namespace trireme::dp {

/// Almost every parameter has a bucket of its own.
DataParallelOptions tiny_buckets(CommHooks hooks);
/// All are in one.
DataParallelOptions one_bucket(CommHooks hooks);

/// A network of three layers that are not used in the order of their registration, so
/// that buckets are rebuilt. Ranks have the rows of one batch in turn.
class HookCase {
 public:
  HookCase(const comm::Group& group, DataParallelOptions options);
  ~HookCase();

  Replica& replica() { return *replica_; }
  std::vector<at::Tensor> parameters() const;
  std::vector<at::Tensor> gradients() const;
  /// Forward and backward of this rank's rows. Without its last layer if `short_way`.
  void backward(bool short_way = false);
  void zero_grad();
  void sgd(double rate);
  /// Backward, step, without gradients afterwards.
  void train(int64_t steps, double rate);

  /// What autograd alone says about this rank's rows, and about all of them.
  std::vector<at::Tensor> own_gradients() const;
  std::vector<at::Tensor> mean_gradients() const;
  /// Over all rows.
  double loss() const;

 private:
  struct Net;
  at::Tensor loss_of(int64_t first, int64_t step, bool short_way) const;
  std::vector<at::Tensor> gradients_of(int64_t first, int64_t step) const;

  comm::Group group_;
  std::shared_ptr<Net> net_;
  std::unique_ptr<Replica> replica_;
  at::Tensor inputs_;
  at::Tensor targets_;
};

/// Threads and processes, one after the other.
void run_both(int ranks, const std::function<void(const comm::Group&)>& body);
/// Whether all ranks have the same bits. Collective.
bool same_everywhere(const comm::Group& group, const std::vector<at::Tensor>& tensors);
/// The largest difference between two lists.
double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

}  // namespace trireme::dp
