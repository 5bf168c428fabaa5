// The norm of all gradients of a model, wherever they are, and its limit.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/mesh.h"
#include "trireme/dp/reducer.h"
#include "trireme/dp/replica.h"
#include "trireme/dp/stage_sync.h"

namespace trireme::dp {

/// A parameter whose gradient is clipped.
struct ClippedParameter {
  at::Tensor tensor;
  /// Whether this rank counts it: of tied parameters, one place does.
  bool counts = true;
  /// The sum of the gradient's squares, where it is known already.
  std::optional<double> squares{};
};

struct ClipOptions {
  double max_norm = 1;
  /// 1, 2, …; infinity is the largest element.
  double norm_type = 2;
  /// Error instead of a norm that is NaN or infinite.
  bool error_if_nonfinite = false;
  /// The axes of the mesh along which ranks have different parameters, or parts of
  /// them: those of a pipeline, and of sharded parameters. Along all others ranks have
  /// the same gradients, and those count once.
  std::vector<std::string> axes{"pp"};
};

/// The norm of all gradients of the mesh together; if it is above max_norm, all are
/// scaled down to it. The same number on all ranks. Axes that the mesh does not have
/// are left out. Collective along the axes.
///
///     double norm = dp::clip_grad_norm(mesh, dp::clipped(*sync), {.max_norm = 1.0});
double clip_grad_norm(
    const comm::Mesh& mesh,
    const std::vector<ClippedParameter>& parameters,
    const ClipOptions& options = {});
/// The same for ranks that all have the same gradients.
double clip_grad_norm(
    const std::vector<ClippedParameter>& parameters, const ClipOptions& options = {});

/// The parameters of a reducer, with the squares that it took while buckets landed, if
/// its option `norm` is set.
std::vector<ClippedParameter> clipped(const Reducer& reducer);
/// All parameters of a replica that are reduced, those in `delay` included: call it
/// after reduce_delayed().
std::vector<ClippedParameter> clipped(const Replica& replica);
/// Those of all stages of this rank; the leaves in `elsewhere` are tied, and counted in
/// another place.
std::vector<ClippedParameter> clipped(
    const StageSync& sync, const std::vector<at::Tensor>& elsewhere = {});
std::vector<ClippedParameter> clipped(const std::vector<at::Tensor>& parameters);

}  // namespace trireme::dp
