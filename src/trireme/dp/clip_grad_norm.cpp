#include "trireme/dp/clip_grad_norm.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

/// What is added up, or compared: |x|^p, or the largest |x|.
double power_of(const ClippedParameter& parameter, double type) {
  const at::Tensor gradient = parameter.tensor.grad();
  if (!gradient.defined() || !parameter.counts || gradient.numel() == 0)
    return 0;
  if (type == 2 && parameter.squares)
    return *parameter.squares;
  const at::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
  const auto norm = at::norm(values, type).item<double>();
  return std::isinf(type) ? norm : std::pow(norm, type);
}

void scale(const std::vector<ClippedParameter>& parameters, double factor) {
  const c10::AutoGradMode no_grad(false);
  for (const ClippedParameter& parameter : parameters)
    if (const at::Tensor gradient = parameter.tensor.grad(); gradient.defined())
      gradient.mul_(factor);
}

double clip(
    const std::vector<ClippedParameter>& parameters,
    const ClipOptions& options,
    const std::vector<comm::Group>& groups) {
  if (!(options.max_norm > 0) || !(options.norm_type > 0))
    throw InvalidArgument(text(
        "[dp] expected max_norm and norm_type above 0, got ",
        options.max_norm,
        " and ",
        options.norm_type,
        "; use 2 for the usual norm"));
  const bool largest = std::isinf(options.norm_type);
  double total = 0;
  for (const ClippedParameter& parameter : parameters) {
    const double power = power_of(parameter, options.norm_type);
    // Not std::max, which would drop NaN.
    total = !largest                             ? total + power
            : power > total || std::isnan(power) ? power
                                                 : total;
  }
  at::Tensor number = at::full({1}, total, at::TensorOptions().dtype(at::kDouble));
  for (const comm::Group& group : groups)
    comm::all_reduce(
        group, number, {.op = largest ? comm::ReduceOp::Max : comm::ReduceOp::Sum});
  total = number.item<double>();
  const double norm = largest ? total : std::pow(total, 1 / options.norm_type);
  if (!std::isfinite(norm) && options.error_if_nonfinite)
    throw Error(text(
        "[dp] expected a finite norm of the gradients, got ",
        norm,
        "; check_finite says where such a gradient comes from"));
  // As torch does, so that norms near the limit come out alike.
  if (const double factor = options.max_norm / (norm + 1e-6); factor < 1)
    scale(parameters, factor);
  return norm;
}

}  // namespace

double clip_grad_norm(
    const comm::Mesh& mesh,
    const std::vector<ClippedParameter>& parameters,
    const ClipOptions& options) {
  std::vector<comm::Group> groups;
  for (const comm::MeshAxis& axis : mesh.axes())
    if (axis.size > 1 &&
        std::find(options.axes.begin(), options.axes.end(), axis.name) !=
            options.axes.end())
      groups.push_back(mesh[axis.name]);
  return clip(parameters, options, groups);
}

double clip_grad_norm(
    const std::vector<ClippedParameter>& parameters, const ClipOptions& options) {
  return clip(parameters, options, {});
}

std::vector<ClippedParameter> clipped(const Reducer& reducer) {
  std::vector<ClippedParameter> all;
  const auto& squares = reducer.outcome().squares;
  for (size_t i = 0; i < reducer.parameters().size(); ++i) {
    all.push_back({.tensor = reducer.parameters()[i].tensor});
    if (!squares.empty() && reducer.is_as_reduced(i))
      all.back().squares = squares[i];
  }
  return all;
}

std::vector<ClippedParameter> clipped(const Replica& replica) {
  std::vector<ClippedParameter> all = clipped(replica.reducer());
  if (replica.delayed() != nullptr)
    for (ClippedParameter& one : clipped(*replica.delayed()))
      all.push_back(std::move(one));
  return all;
}

std::vector<ClippedParameter> clipped(
    const StageSync& sync, const std::vector<at::Tensor>& elsewhere) {
  std::vector<ClippedParameter> all;
  for (const auto& [stage, reducer] : sync.reducers())
    for (ClippedParameter& one : clipped(*reducer)) {
      one.counts =
          std::none_of(elsewhere.begin(), elsewhere.end(), [&](const at::Tensor& leaf) {
            return leaf.is_same(one.tensor);
          });
      all.push_back(std::move(one));
    }
  return all;
}

std::vector<ClippedParameter> clipped(const std::vector<at::Tensor>& parameters) {
  std::vector<ClippedParameter> all;
  std::set<const void*> seen;  // a module lists a shared parameter under each name
  for (const at::Tensor& parameter : parameters)
    if (seen.insert(parameter.unsafeGetTensorImpl()).second)
      all.push_back({.tensor = parameter});
  return all;
}

}  // namespace trireme::dp
