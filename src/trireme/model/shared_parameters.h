// Tied parameters of the layers that are built on one rank.
#pragma once
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/model/model_plan.h"

namespace trireme::model {

/// What layers built on one rank share: a parameter with several names is one tensor
/// there, whichever stages it is in.
///
///     SharedParameters shared(plan.tied);
///     shared.make(wte, options).is_same(shared.make(lm_head, options));  // true
class SharedParameters {
 public:
  explicit SharedParameters(const std::vector<std::vector<std::string>>& tied = {});

  /// The name that a parameter is drawn for and saved under: the first of those that
  /// are tied.
  const std::string& first_name(const std::string& name) const;
  /// A new parameter, or the tied one if it is here already. InvalidArgument if that
  /// has another shape or dtype.
  at::Tensor make(const ParameterPlan& plan, const BuildOptions& options);

 private:
  /// Of every name that is tied, the first one.
  std::map<std::string, std::string> first_;
  std::map<std::string, at::Tensor> made_;
};

}  // namespace trireme::model
