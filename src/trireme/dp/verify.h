// Whether all ranks have the same model, and the same values.
#pragma once
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/dp/parameter.h"

namespace trireme::dp {

/// InvalidArgument on every rank if the lines of two ranks differ; it shows the first
/// that does, and who has which. Collective.
void verify_same(
    const comm::Group& group,
    const std::string& what,
    const std::vector<std::string>& lines);

/// A parameter in words: name, dtype, sizes, strides.
std::string describe(const Parameter& parameter);

/// Gives every rank the values of `source`, dtype by dtype in one go. Versions stay as
/// they are: a graph that was made before is still good. Collective.
void broadcast_values(
    const comm::Group& group, const std::vector<at::Tensor>& tensors, int source);
/// The same with the mean of all ranks; integers come from rank 0.
void average_values(const comm::Group& group, const std::vector<at::Tensor>& tensors);

/// Error on every rank if a value differs between ranks; it names the first parameter
/// that does, and the ranks. Collective; costs a hash of all values.
void verify_equal_values(
    const comm::Group& group, const std::vector<Parameter>& parameters);

}  // namespace trireme::dp
