// Which rank of a job belongs to which of its programs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "trireme/core/launch_env.h"
#include "trireme/launch/options.h"

namespace trireme::launch {

/// A role, and how many ranks have it.
struct RoleShare {
  std::string name;
  int ranks = 1;
  bool operator==(const RoleShare&) const = default;
};

/// The roles of a job's parts. InvalidArgument where there is no part, one has no
/// program, two have one role, a role cannot be printed on a line, or one of several
/// parts has no rank.
///
///     read_roles(parts);   // {{"trainer", 4}, {"server", 1}}
std::vector<RoleShare> read_roles(std::span<const Part> parts);

/// The ranks of all together; the largest int if they are more than that.
int ranks_in_all(const std::vector<RoleShare>& roles);

/// Which of the roles a rank has, whose ranks follow one another; it must have one.
size_t role_index(const std::vector<RoleShare>& roles, int rank);

/// The role of a rank as its program will read it.
///
///     role_of({{"trainer", 4}, {"server", 1}}, 4);   // {"server", 0, 1}
LaunchRole role_of(const std::vector<RoleShare>& roles, int rank);

}  // namespace trireme::launch
