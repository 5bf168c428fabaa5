#include "trireme/launch/roles.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::launch {
namespace {

constexpr size_t kMostRole = 64;

std::string role_name(const Part& part, bool alone) {
  if (!part.role.empty())
    return part.role;
  return alone ? LaunchRole().name
               : std::filesystem::path(part.command[0]).stem().string();
}

// It stands in front of lines and in reports.
void check_role(const std::string& name) {
  const auto odd = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  if (name.empty() || name.size() > kMostRole ||
      std::any_of(name.begin(), name.end(), odd))
    throw InvalidArgument(text(
        "[launch] expected a role of 1 to ",
        kMostRole,
        " bytes without control characters, got ",
        in_quotes(name),
        "; name it with --role (Part::role)"));
}

void check_other(const std::string& name, const std::vector<RoleShare>& roles) {
  const auto same = [&name](const RoleShare& one) { return one.name == name; };
  if (std::any_of(roles.begin(), roles.end(), same))
    throw InvalidArgument(text(
        "[launch] expected a role of its own for each program, got two called ",
        in_quotes(name),
        "; name one of them with --role (Part::role)"));
}

}  // namespace

std::vector<RoleShare> read_roles(std::span<const Part> parts) {
  std::vector<RoleShare> roles;
  const bool alone = parts.size() == 1;
  for (const Part& part : parts) {
    if (part.command.empty())
      break;
    const std::string name = role_name(part, alone);
    check_role(name);
    check_other(name, roles);
    if (!alone && part.ranks < 1)
      throw InvalidArgument(text(
          "[launch] expected at least one rank of ",
          name,
          ", got ",
          part.ranks,
          "; give the number of ranks with -n"));
    roles.push_back({.name = name, .ranks = part.ranks});
  }
  if (roles.empty() || roles.size() < parts.size())
    throw InvalidArgument(
        "[launch] expected a program to run, got none; give its name first");
  return roles;
}

int ranks_in_all(const std::vector<RoleShare>& roles) {
  const int64_t sum = std::accumulate(
      roles.begin(), roles.end(), int64_t{0}, [](int64_t all, const RoleShare& one) {
        return all + one.ranks;
      });
  return static_cast<int>(std::min<int64_t>(sum, std::numeric_limits<int>::max()));
}

size_t role_index(const std::vector<RoleShare>& roles, int rank) {
  size_t index = 0;
  for (; rank >= roles.at(index).ranks; ++index)
    rank -= roles[index].ranks;
  return index;
}

LaunchRole role_of(const std::vector<RoleShare>& roles, int rank) {
  const size_t index = role_index(roles, rank);
  for (size_t before = 0; before < index; ++before)
    rank -= roles[before].ranks;
  return {.name = roles[index].name, .rank = rank, .size = roles[index].ranks};
}

}  // namespace trireme::launch
