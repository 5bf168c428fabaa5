// Parameters that are one and the same in several stages.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/pipe/stage_module.h"

namespace trireme::pipe {

/// A parameter of a stage, by its name in the whole model.
struct TiedParameter {
  int stage = 0;
  std::string name;
  bool operator==(const TiedParameter&) const = default;
};

/// Places that hold one parameter, as an embedding that is the output layer too.
///
///     PipelineOptions{.tied = {{{0, "embed.weight"}, {3, "head.weight"}}}}
struct Tied {
  Tied() = default;
  Tied(std::initializer_list<TiedParameter> all) : places(all) {}
  Tied(std::vector<TiedParameter> all) : places(std::move(all)) {}

  std::vector<TiedParameter> places;
  bool operator==(const Tied&) const = default;
};

/// What ranks must agree on about a parameter.
struct ParameterShape {
  std::string name;
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::ScalarType::Float;
};

/// The parameters of some of the stages, by stage: those of this rank, or all of them
/// if the ranks have told one another.
using StageShapes = std::map<int, std::vector<ParameterShape>>;

std::vector<ParameterShape> shapes_of(const NamedTensors& parameters);

/// InvalidArgument unless each of `tied` has at least two places, no place is named
/// twice, stages are within [0, stages), and, where their stage is among `known`, the
/// parameters exist and have one shape and dtype.
void check_tied(const std::vector<Tied>& tied, int stages, const StageShapes& known);

/// The tensors that lie in several of these stages, as they must be declared: for
/// stages that were cut out of one model. A tensor with several names in a stage has
/// its first.
std::vector<Tied> find_tied(const std::vector<NamedTensors>& parameters_of_stages);

/// As it is written in a program: `Tied{{0, "embed.weight"}, {3, "head.weight"}}`.
std::string to_text(const Tied& tied);

}  // namespace trireme::pipe
