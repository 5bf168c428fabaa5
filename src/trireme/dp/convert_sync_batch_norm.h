// Makes the BatchNorm layers of a model share their statistics over ranks.
#pragma once
#include <cstddef>

#include <torch/nn/module.h>

#include "trireme/comm/group.h"
#include "trireme/dp/sync_batch_norm.h"

namespace trireme::dp {

/// Replaces the BatchNorm1d, 2d and 3d layers in all torch::nn::Sequentials of a model
/// by SyncBatchNorm layers of this group, and gives the group to SyncBatchNorm layers
/// that have none. Returns how many layers that were.
///
///     torch::nn::Sequential model(Conv2d(3, 8, 3), BatchNorm2d(8), ReLU());
///     dp::convert_sync_batch_norm(*model, world);
///
/// A new layer goes on with the tensors of the old one, so an optimizer that has them
/// already stays valid; mode and options are kept, and a layer that is in several
/// places is one layer afterwards too. Not a collective call. Calling it again changes
/// nothing.
///
/// In C++ a model calls its layers by their types: a module with a member
/// `torch::nn::BatchNorm2d norm` would go on calling that one, whatever is registered
/// in its place. Only a Sequential takes any layer. So a BatchNorm anywhere else, and
/// any class derived from one, is NotSupported, which names it; nothing has been
/// replaced then. Such a member is declared as `dp::SyncBatchNorm` instead: without a
/// group it is a BatchNorm, so the same model serves one rank and many. Code that
/// fetches a layer from a Sequential by type (`at<BatchNorm2dImpl>(1)`) must ask for
/// SyncBatchNormImpl.
size_t convert_sync_batch_norm(torch::nn::Module& model, const comm::Group& group);

/// The layer that takes the place of a BatchNorm1d, 2d or 3d, whose tensors it shares.
/// InvalidArgument for any other module.
SyncBatchNorm sync_batch_norm_from(
    torch::nn::Module& batch_norm, const comm::Group& group);

}  // namespace trireme::dp
