// Mesh: the ranks of a group on named axes, with a group for each axis.
#pragma once
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::comm {

/// One axis of a mesh: its name and how many ranks lie along it.
struct MeshAxis {
  std::string name;
  int size = 1;
};

/// Ranks in row-major order on named axes: the last axis varies fastest.
///
///     Mesh mesh(world, {{"pp", 2}, {"dp", 4}});      // rank 5 is pp 1, dp 1
///     all_reduce(mesh["dp"], gradients);              // over ranks of the same pp
///
/// Making a mesh is a collective call: all ranks of the group, same axes. Cheap to
/// copy.
class Mesh {
 public:
  Mesh(const Group& group, const std::vector<MeshAxis>& axes);

  /// The ranks that differ from this one only on that axis. InvalidArgument names the
  /// axes that there are.
  const Group& operator[](std::string_view axis) const;
  /// All ranks.
  const Group& group() const { return group_; }
  const std::vector<MeshAxis>& axes() const { return axes_; }
  /// How many ranks lie along an axis.
  int size(std::string_view axis) const;
  /// Where this rank lies on an axis.
  int coordinate(std::string_view axis) const;
  /// The rank, in group(), at these coordinates, one an axis in order.
  int rank_at(const std::vector<int>& coordinates) const;

  /// The ranks that differ only on several axes, in mesh order: collective, like the
  /// mesh.
  Group join(const std::vector<std::string>& axes) const;

 private:
  size_t index_of(std::string_view axis) const;
  Group split_by(const std::vector<bool>& inside) const;

  Group group_;
  std::vector<MeshAxis> axes_;
  std::vector<int> coordinates_;
  std::vector<Group> groups_;
};

}  // namespace trireme::comm
