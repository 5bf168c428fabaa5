// Optimizers of tables: a step reads and writes the rows that have a gradient, and no
// others.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/rpc/wire_struct.h"

namespace trireme::dist_autograd {

enum class RowRule {
  /// w -= lr g, as torch's SGD without momentum and weight decay.
  SGD,
  /// s += g², w -= lr g / (√s + eps), as torch's Adagrad.
  Adagrad,
  /// As torch's SparseAdam: a row's moments stay as they are in steps without it, while
  /// the bias correction goes by all steps of the table.
  Adam,
};

/// Which one, and what it is made with.
struct RowOptimizerOptions {
  RowRule rule = RowRule::SGD;
  /// Adam's.
  double beta1 = 0.9;
  double beta2 = 0.999;
  /// Adam's and Adagrad's; torch has 1e-8 and 1e-10.
  double eps = 1e-8;
};

/// InvalidArgument for a rule that there is not, or numbers out of range.
void check_options(const RowOptimizerOptions& options);

/// What each rule remembers of rows, by name: "sum" of Adagrad, "exp_avg" and
/// "exp_avg_sq" of Adam.
std::vector<std::string> state_names(RowRule rule);

/// One table's, or one server's part of it. What it needs beside the rows is as large
/// as they are, for Adam twice.
class RowOptimizer {
 public:
  using Options = RowOptimizerOptions;

  RowOptimizer(const Options& options, const at::Tensor& rows);

  /// Changes `rows` by a sparse gradient that is coalesced. Without one it is a step
  /// all the same, which counts.
  void step(at::Tensor& rows, const at::Tensor& gradient, double lr);

  /// What it remembers, by the names of state_names().
  const std::map<std::string, at::Tensor>& states() const { return states_; }
  /// How many steps there were.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  at::Tensor adagrad(const at::Tensor& ids, const at::Tensor& gradient);
  at::Tensor adam(const at::Tensor& ids, const at::Tensor& gradient);

  Options options_;
  std::map<std::string, at::Tensor> states_;
  std::int64_t steps_ = 0;
};

}  // namespace trireme::dist_autograd

template <>
struct trireme::rpc::Fields<trireme::dist_autograd::RowOptimizerOptions> {
  using Options = dist_autograd::RowOptimizerOptions;
  static constexpr auto name = "trireme.RowOptimizerOptions";
  static constexpr int version = 1;
  static constexpr auto members =
      std::tuple(&Options::rule, &Options::beta1, &Options::beta2, &Options::eps);
};
