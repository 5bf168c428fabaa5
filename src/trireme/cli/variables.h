// The variables that steer Trireme and its neighbours: which are set, and who reads
// them.
#pragma once
#include <string>
#include <vector>

#include "trireme/core/environment.h"

namespace trireme::cli {

/// A variable that is set.
struct VariableNote {
  std::string name;
  /// As it is, or kHidden where the name speaks of a secret.
  std::string value;
  /// Who reads it and for what, or that nobody does.
  std::string reader;
  /// What its reader will say against the value; empty if nothing.
  std::string problem;
};

/// Stands for the value of a secret.
inline constexpr const char* kHidden = "(set, not shown)";

/// Notes on every TRIREME_*, NCCL_* and GLOO_* variable of `env`, in this order.
std::vector<VariableNote> note_variables(const Environment& env);

}  // namespace trireme::cli
