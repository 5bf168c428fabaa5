#include "trireme/comm/mesh.h"

#include <set>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::comm {
namespace {

std::string list(const std::vector<MeshAxis>& axes) {
  if (axes.empty())
    return "no axes";
  std::string out;
  for (const MeshAxis& axis : axes)
    out += text(out.empty() ? "" : ", ", axis.name, " (", axis.size, ")");
  return out;
}

void check_axes(const std::vector<MeshAxis>& axes, int ranks) {
  std::set<std::string> names;
  int64_t product = 1;
  for (const MeshAxis& axis : axes) {
    if (axis.name.empty() || !names.insert(axis.name).second)
      throw InvalidArgument(text(
          "[comm] expected mesh axes with names of their own, got ",
          in_quotes(axis.name),
          axis.name.empty() ? "" : " twice",
          "; rename it"));
    if (axis.size < 1)
      throw InvalidArgument(text(
          "[comm] expected at least one rank along ",
          in_quotes(axis.name),
          ", got ",
          axis.size,
          "; give a number above 0"));
    // Stops before it could overflow: more than there are ranks is wrong anyway.
    product = std::min<int64_t>(product * axis.size, int64_t{1} << 31);
  }
  if (product != ranks)
    throw InvalidArgument(text(
        "[comm] expected axes whose sizes multiply to ",
        ranks,
        ", the number of ranks, got ",
        list(axes),
        ", which makes ",
        product,
        "; change a size"));
}

}  // namespace

Mesh::Mesh(const Group& group, const std::vector<MeshAxis>& axes)
    : group_(group), axes_(axes), coordinates_(axes.size()) {
  check_axes(axes_, group_.size());
  int rest = group_.rank();
  for (size_t i = axes_.size(); i-- > 0;) {
    coordinates_[i] = rest % axes_[i].size;
    rest /= axes_[i].size;
  }
  for (size_t i = 0; i < axes_.size(); ++i) {
    std::vector<bool> inside(axes_.size(), false);
    inside[i] = true;
    groups_.push_back(split_by(inside));
  }
}

// The colour numbers the coordinates that are held fixed.
Group Mesh::split_by(const std::vector<bool>& inside) const {
  int color = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (!inside[i])
      color = color * axes_[i].size + coordinates_[i];
  return group_.split(color);
}

size_t Mesh::index_of(std::string_view axis) const {
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].name == axis)
      return i;
  throw InvalidArgument(text(
      "[comm] expected a mesh axis out of ",
      list(axes_),
      ", got ",
      in_quotes(axis),
      "; take one of these"));
}

const Group& Mesh::operator[](std::string_view axis) const {
  return groups_[index_of(axis)];
}

int Mesh::size(std::string_view axis) const {
  return axes_[index_of(axis)].size;
}

int Mesh::coordinate(std::string_view axis) const {
  return coordinates_[index_of(axis)];
}

int Mesh::rank_at(const std::vector<int>& coordinates) const {
  if (coordinates.size() != axes_.size())
    throw InvalidArgument(text(
        "[comm] expected ",
        axes_.size(),
        " coordinates, got ",
        coordinates.size(),
        "; give one an axis"));
  int rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (coordinates[i] < 0 || coordinates[i] >= axes_[i].size)
      throw InvalidArgument(text(
          "[comm] expected a coordinate from 0 to ",
          axes_[i].size - 1,
          " on ",
          axes_[i].name,
          ", got ",
          coordinates[i],
          "; give one of these"));
    rank = rank * axes_[i].size + coordinates[i];
  }
  return rank;
}

Group Mesh::join(const std::vector<std::string>& axes) const {
  std::vector<bool> inside(axes_.size(), false);
  for (const std::string& axis : axes)
    inside[index_of(axis)] = true;
  return split_by(inside);
}

}  // namespace trireme::comm
