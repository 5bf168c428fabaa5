#include "trireme/dp/power_sgd_hook.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <ATen/Functions.h>

#include "trireme/core/error.h"
#include "trireme/dp/orthogonalize.h"

namespace trireme::dp {
namespace {

/// Reduces several tensors as one.
void reduce_together(const GradBucket& bucket, const std::vector<at::Tensor>& tensors) {
  if (tensors.empty())
    return;
  std::vector<at::Tensor> flats;
  for (const at::Tensor& tensor : tensors)
    flats.push_back(tensor.reshape({-1}));
  const at::Tensor flat = at::cat(flats);
  bucket.reduce(flat);
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

bool is_finite(const at::Tensor& tensor) {
  return at::isfinite(tensor).all().item<bool>();
}

void check(const PowerSgdOptions& options) {
  if (options.rank < 1)
    throw InvalidArgument(text(
        "[dp] expected PowerSGD of rank 1 or more, got ",
        options.rank,
        "; 1 to 4 are usual"));
  if (options.start_round < 0)
    throw InvalidArgument(text(
        "[dp] expected PowerSGD to start in round 0 or later, got ",
        options.start_round,
        "; give the number of rounds that are reduced in full"));
  if (!(options.min_compression_rate > 0) ||
      !std::isfinite(options.min_compression_rate))
    throw InvalidArgument(text(
        "[dp] expected a min_compression_rate above 0, got ",
        options.min_compression_rate,
        "; 2 compresses what becomes less than half as large"));
  if (!(options.epsilon >= 0) || !std::isfinite(options.epsilon))
    throw InvalidArgument(text(
        "[dp] expected an epsilon of 0 or a little more, got ",
        options.epsilon,
        "; 0 is safe, since zero gradients are looked after"));
}

}  // namespace

/// A gradient on its way through the thin matrices, which are kept with their columns
/// one after the other: p is r x n, q is r x m.
struct PowerSgdHook::Matrix {
  size_t parameter = 0;
  /// The gradient in the bucket, and as n x m in the dtype of the computation: the same
  /// memory where that is possible.
  at::Tensor gradient;
  at::Tensor values;
  int64_t r = 0;
  at::Tensor p;
  at::Tensor q;
  Memory* memory = nullptr;
  bool finite = true;
};

PowerSgdHook::PowerSgdHook(const PowerSgdOptions& options) : options_(options) {
  check(options_);
}

std::string PowerSgdHook::name() const {
  return text(
      "power_sgd of rank ",
      options_.rank,
      " from round ",
      options_.start_round,
      options_.error_feedback ? " with error feedback" : "",
      options_.warm_start ? " with warm start" : "",
      ", rate ",
      options_.min_compression_rate,
      ", seed ",
      options_.seed,
      ", epsilon ",
      options_.epsilon);
}

void PowerSgdHook::run(GradBucket& bucket, const Next& next) {
  const int64_t round = round_of(bucket);
  // One rank has nothing to send, and so nothing to lose.
  if (bucket.group().size() == 1 || round < options_.start_round)
    return next(bucket);
  std::vector<at::Tensor> others;
  std::vector<Matrix> all = matrices(bucket, others);
  if (all.empty())
    return bucket.reduce(bucket.buffer());
  reduce_together(bucket, others);
  reduce_matrices(bucket, all, round);
}

int64_t PowerSgdHook::round_of(const GradBucket& bucket) {
  if (std::exchange(loaded_, false))
    before_ = rounds_ - bucket.round();
  const int64_t round = bucket.round() + before_;
  rounds_ = round + 1;
  return round;
}

std::vector<PowerSgdHook::Matrix> PowerSgdHook::matrices(
    GradBucket& bucket, std::vector<at::Tensor>& others) {
  std::vector<Matrix> all;
  const c10::ScalarType dtype = bucket.buffer().scalar_type();
  for (const GradBucket::Entry& entry : bucket.entries()) {
    Matrix matrix{.parameter = entry.parameter, .gradient = bucket.view(entry)};
    const int64_t n = matrix.gradient.dim() > 0 ? matrix.gradient.size(0) : 1;
    const int64_t m = matrix.gradient.numel() / std::max<int64_t>(1, n);
    matrix.r = std::min({n, m, options_.rank});
    const double sent = static_cast<double>(n + m) * static_cast<double>(matrix.r) *
                        options_.min_compression_rate;
    if (!c10::isFloatingType(dtype) || matrix.gradient.numel() == 0 ||
        sent >= static_cast<double>(n) * static_cast<double>(m)) {
      others.push_back(matrix.gradient);
      continue;
    }
    matrix.values = matrix.gradient.reshape({n, m}).to(
        dtype == at::kDouble ? at::kDouble : at::kFloat);
    matrix.memory = &memory_[entry.parameter];
    add_error(matrix);
    all.push_back(std::move(matrix));
  }
  return all;
}

void PowerSgdHook::add_error(Matrix& matrix) const {
  if (!options_.error_feedback)
    return;
  at::Tensor& error = matrix.memory->error;
  if (!error.defined()) {
    error = at::zeros_like(matrix.values);
    return;
  }
  if (error.sizes() != matrix.values.sizes())
    throw InvalidArgument(text(
        "[dp] expected PowerSGD's memory of parameter ",
        matrix.parameter,
        " to have sizes ",
        matrix.values.sizes(),
        ", got ",
        error.sizes(),
        "; load the state of the same model"));
  matrix.values.add_(error);
}

/// Equal on all ranks: it comes from reductions, or from the seed.
void PowerSgdHook::choose_q(Matrix& matrix, int64_t round) const {
  const auto fill = [&](const at::Tensor& row, int64_t index) {
    fill_uniform(
        row,
        {.seed = options_.seed,
         .a = static_cast<uint32_t>(matrix.parameter),
         .b = static_cast<uint32_t>(round),
         .c = static_cast<uint32_t>(index)});
  };
  const at::Tensor& last = matrix.memory->q;
  if (options_.warm_start && last.defined() && last.sizes() == matrix.q.sizes())
    matrix.q.copy_(last);
  else
    for (int64_t i = 0; i < matrix.r; ++i)
      fill(matrix.q.select(0, i), i);
  // A gradient that was zero leaves zeros here, which would stay so for ever.
  orthogonalize(matrix.q, options_.epsilon, fill);
}

void PowerSgdHook::reduce_matrices(
    GradBucket& bucket, std::vector<Matrix>& all, int64_t round) {
  int64_t rows = 0;
  int64_t columns = 0;
  for (const Matrix& matrix : all) {
    rows += matrix.r * matrix.values.size(0);
    columns += matrix.r * matrix.values.size(1);
  }
  const at::Tensor ps = at::empty({rows}, all[0].values.options());
  const at::Tensor qs = at::empty({columns}, ps.options());
  rows = columns = 0;
  for (Matrix& matrix : all) {
    const int64_t n = matrix.values.size(0);
    const int64_t m = matrix.values.size(1);
    matrix.p = ps.narrow(0, rows, matrix.r * n).view({matrix.r, n});
    matrix.q = qs.narrow(0, columns, matrix.r * m).view({matrix.r, m});
    rows += matrix.r * n;
    columns += matrix.r * m;
    choose_q(matrix, round);
    at::mm_out(matrix.p, matrix.q, matrix.values.t());
  }
  bucket.reduce(ps);
  for (Matrix& matrix : all) {
    matrix.finite = is_finite(matrix.p);
    orthogonalize(matrix.p, options_.epsilon);
    at::mm_out(matrix.q, matrix.p, matrix.values);
    // This rank's own loss. Taken from the product of all, it would be right for means
    // alone.
    if (options_.error_feedback)
      at::addmm_out(matrix.memory->error, matrix.values, matrix.p.t(), matrix.q, 1, -1);
  }
  bucket.reduce(qs);
  for (Matrix& matrix : all) {
    matrix.finite = matrix.finite && is_finite(matrix.q);
    keep(matrix);
  }
}

/// Writes the gradient, and what later rounds need.
void PowerSgdHook::keep(const Matrix& matrix) const {
  if (!matrix.finite) {
    matrix.gradient.fill_(std::nan(""));
    *matrix.memory = {};
    return;
  }
  at::Tensor values = matrix.values;
  at::mm_out(values, matrix.p.t(), matrix.q);
  if (!values.is_alias_of(matrix.gradient))
    matrix.gradient.copy_(values.view(matrix.gradient.sizes()));
  if (options_.warm_start)
    matrix.memory->q = matrix.q.clone();
}

PowerSgdHook::State PowerSgdHook::state() const {
  State state;
  state.emplace_back("round", at::full({1}, rounds_, at::kLong));
  for (const auto& [parameter, memory] : memory_) {
    if (memory.error.defined())
      state.emplace_back(text("error.", parameter), memory.error.clone());
    if (memory.q.defined())
      state.emplace_back(text("q.", parameter), memory.q.clone());
  }
  return state;
}

void PowerSgdHook::load_state(const State& state) {
  std::map<size_t, Memory> memory;
  std::optional<int64_t> rounds;
  for (const auto& [name, tensor] : state) {
    const std::string kind = name.substr(0, name.find('.'));
    const char* digits = name.data() + std::min(name.size(), kind.size() + 1);
    const char* end = name.data() + name.size();
    size_t parameter = 0;
    const bool numbered =
        std::from_chars(digits, end, parameter).ptr == end && digits != end;
    if (name == "round" && tensor.numel() == 1)
      rounds = tensor.item<int64_t>();
    else if (numbered && tensor.dim() == 2 && kind == "error")
      memory[parameter].error = tensor.clone();
    else if (numbered && tensor.dim() == 2 && kind == "q")
      memory[parameter].q = tensor.clone();
    else
      throw InvalidArgument(text(
          "[dp] expected the state of a PowerSgdHook, got a tensor named ",
          name,
          " of sizes ",
          tensor.sizes(),
          "; give what state() has returned"));
  }
  if (!rounds)
    throw InvalidArgument(
        "[dp] expected the state of a PowerSgdHook, got one without its round; give "
        "what state() has returned");
  memory_ = std::move(memory);
  rounds_ = *rounds;
  loaded_ = true;
}

std::shared_ptr<PowerSgdHook> make_power_sgd_hook(const PowerSgdOptions& options) {
  return std::make_shared<PowerSgdHook>(options);
}

}  // namespace trireme::dp
