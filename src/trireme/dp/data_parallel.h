// DataParallel: the same model on every rank, each with its share of the batch. The
// module's main type.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>

#include "trireme/dp/replica.h"

namespace trireme::dp {

/// A module whose gradients are reduced over the ranks of a group while backward runs.
/// Wrap it after it was moved and converted, and before its optimizer is made.
///
///     dp::DataParallel model(Net(), world, {.find_unused = true});
///     torch::optim::SGD optimizer(model->parameters(), 0.1);
///     at::Tensor loss = loss_of(model.forward(input), target);
///     loss.backward();       // returns with reduced gradients
///     optimizer.step();
///
/// M is a holder such as torch::nn::Linear, or a shared_ptr of a module.
template <class M>
class DataParallel {
 public:
  /// Collective: verifies that all ranks have the same model, and gives them the values
  /// of rank 0.
  DataParallel(M module, const comm::Group& group, DataParallelOptions options = {})
      : module_(std::move(module)),
        replica_(std::make_unique<Replica>(*module_, group, std::move(options))) {}

  /// The module's own forward, with its arguments and its result.
  template <class... Args>
  auto forward(Args&&... args) {
    const auto low_precision = replica_->before_forward();
    return replica_->watch(module_->forward(prepare(std::forward<Args>(args))...));
  }
  template <class... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  /// The module; running it by itself leaves out what forward() does around it.
  const M& module() const { return module_; }
  auto* operator->() { return &*module_; }
  const auto* operator->() const { return &*module_; }
  Replica& replica() { return *replica_; }
  const Replica& replica() const { return *replica_; }

  /// Gradients of backwards in its scope stay on this rank and add up.
  ///
  ///     { auto guard = model.no_sync(); loss_of(model(a)).backward(); }
  ///     loss_of(model(b)).backward();   // reduces the sum of both
  [[nodiscard]] Replica::NoSync no_sync() { return replica_->no_sync(); }
  /// How many samples or tokens this rank's next gradients stand for.
  void set_weight(int64_t weight) { replica_->set_weight(weight); }

 private:
  template <class T>
  decltype(auto) prepare(T&& argument) const {
    if constexpr (std::is_convertible_v<const std::decay_t<T>&, const at::Tensor&>)
      return replica_->cast_input(argument);
    else
      return std::forward<T>(argument);
  }

  M module_;
  std::unique_ptr<Replica> replica_;
};

}  // namespace trireme::dp
