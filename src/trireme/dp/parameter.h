// The parameters that data parallelism looks after.
#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::dp {

/// A parameter under its name in the model.
struct Parameter {
  std::string name;
  at::Tensor tensor;
  /// Its gradient lists rows, as that of an embedding with sparse(true) does.
  bool sparse = false;
};

/// Takes out what needs no gradient, what is repeated and what is named in `ignore`;
/// InvalidArgument if a name there belongs to none, or if nothing is left.
std::vector<Parameter> trained_parameters(
    const std::vector<Parameter>& all, const std::vector<std::string>& ignore);

/// InvalidArgument unless all are defined leaves on the CPU that can be reduced.
void check_parameters(const std::vector<Parameter>& parameters);

/// InvalidArgument if one of those that were frozen `since` needs a gradient by now: it
/// would stay on its rank. `remedy` is what to do after they have been let to need one.
void check_still_frozen(
    const std::vector<Parameter>& frozen, const char* since, const char* remedy);

}  // namespace trireme::dp
