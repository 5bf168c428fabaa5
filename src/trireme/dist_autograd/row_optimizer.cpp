#include "trireme/dist_autograd/row_optimizer.h"

#include <cmath>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/core/error.h"

namespace trireme::dist_autograd {
namespace {

void expect_within(const char* name, double number, double least, double below) {
  if (!(number >= least && number < below))
    throw InvalidArgument(text(
        "[dist_autograd] expected ",
        name,
        " of a row optimizer from ",
        least,
        " to below ",
        below,
        ", got ",
        number,
        "; correct it"));
}

}  // namespace

void check_options(const RowOptimizerOptions& options) {
  if (options.rule < RowRule::SGD || options.rule > RowRule::Adam)
    throw InvalidArgument(text(
        "[dist_autograd] expected SGD, Adagrad or Adam as a row optimizer, got rule ",
        static_cast<int>(options.rule),
        "; take one of these"));
  expect_within("beta1", options.beta1, 0, 1);
  expect_within("beta2", options.beta2, 0, 1);
  expect_within("eps", options.eps, 0, 1);
}

std::vector<std::string> state_names(RowRule rule) {
  if (rule == RowRule::Adagrad)
    return {"sum"};
  if (rule == RowRule::Adam)
    return {"exp_avg", "exp_avg_sq"};
  return {};
}

RowOptimizer::RowOptimizer(const Options& options, const at::Tensor& rows)
    : options_(options) {
  const c10::NoGradGuard no_grad;
  for (const std::string& name : state_names(options.rule))
    states_[name] = at::zeros_like(rows);
}

void RowOptimizer::step(at::Tensor& rows, const at::Tensor& gradient, double lr) {
  const c10::NoGradGuard no_grad;
  ++steps_;
  if (!gradient.defined())
    return;
  const at::Tensor ids = gradient._indices().select(0, 0);
  const at::Tensor values = gradient._values();
  const at::Tensor change = options_.rule == RowRule::SGD       ? values
                            : options_.rule == RowRule::Adagrad ? adagrad(ids, values)
                                                                : adam(ids, values);
  rows.index_add_(0, ids, change, -lr);
}

at::Tensor RowOptimizer::adagrad(const at::Tensor& ids, const at::Tensor& gradient) {
  at::Tensor& sums = states_.at("sum");
  const at::Tensor sum = sums.index_select(0, ids) + gradient.square();
  sums.index_copy_(0, ids, sum);
  return gradient / (sum.sqrt() + options_.eps);
}

at::Tensor RowOptimizer::adam(const at::Tensor& ids, const at::Tensor& gradient) {
  const auto moved = [&](const char* name, const at::Tensor& to, double beta) {
    at::Tensor& all = states_.at(name);
    const at::Tensor mean = at::lerp(all.index_select(0, ids), to, 1 - beta);
    all.index_copy_(0, ids, mean);
    return mean;
  };
  const at::Tensor mean = moved("exp_avg", gradient, options_.beta1);
  const at::Tensor square = moved("exp_avg_sq", gradient.square(), options_.beta2);
  const auto step = static_cast<double>(steps_);
  const double correction = std::sqrt(1 - std::pow(options_.beta2, step)) /
                            (1 - std::pow(options_.beta1, step));
  return mean / (square.sqrt() + options_.eps) * correction;
}

}  // namespace trireme::dist_autograd
