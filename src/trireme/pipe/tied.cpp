#include "trireme/pipe/tied.h"

#include <c10/util/ArrayRef.h>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/pipe/named_tensors.h"

namespace trireme::pipe {
namespace {

std::string to_text(const TiedParameter& place) {
  return text("{", place.stage, ", \"", place.name, "\"}");
}

// The parameter, if its stage is known.
const ParameterShape* find(
    const TiedParameter& place, int stages, const StageShapes& known) {
  if (place.stage < 0 || place.stage >= stages)
    throw InvalidArgument(text(
        "[pipe] tied parameter ",
        to_text(place),
        ": expected a stage in [0, ",
        stages,
        "), got ",
        place.stage,
        "; correct the stage"));
  const auto stage = known.find(place.stage);
  if (stage == known.end())
    return nullptr;
  std::vector<std::string> names;
  for (const ParameterShape& shape : stage->second) {
    if (shape.name == place.name)
      return &shape;
    names.push_back(shape.name);
  }
  throw InvalidArgument(text(
      "[pipe] tied parameter ",
      to_text(place),
      ": expected a parameter of stage ",
      place.stage,
      ", got a name that it does not have; it has ",
      list_names(names)));
}

std::string describe(const ParameterShape& shape) {
  return text(shape.dtype, " ", at::IntArrayRef(shape.sizes));
}

void check_one(const Tied& tied, int stages, const StageShapes& known) {
  if (tied.places.size() < 2)
    throw InvalidArgument(text(
        "[pipe] expected at least two places for a tied parameter, got ",
        to_text(tied),
        "; name every stage that holds it"));
  const ParameterShape* first = nullptr;
  const TiedParameter* first_place = nullptr;
  for (const TiedParameter& place : tied.places) {
    const ParameterShape* shape = find(place, stages, known);
    if (shape == nullptr)
      continue;
    if (first == nullptr) {
      first = shape;
      first_place = &place;
    } else if (shape->sizes != first->sizes || shape->dtype != first->dtype) {
      throw InvalidArgument(text(
          "[pipe] expected tied parameters of one shape and dtype, got ",
          to_text(*first_place),
          " of ",
          describe(*first),
          " and ",
          to_text(place),
          " of ",
          describe(*shape),
          "; tie what is alike, or transpose in forward"));
    }
  }
}

void check_named_once(const std::vector<Tied>& tied) {
  std::map<std::pair<int, std::string>, const Tied*> seen;
  for (const Tied& each : tied)
    for (const TiedParameter& place : each.places) {
      const auto [at, is_new] = seen.emplace(std::pair(place.stage, place.name), &each);
      if (!is_new)
        throw InvalidArgument(text(
            "[pipe] expected each place of tied parameters once, got ",
            to_text(place),
            at->second == &each ? " twice in one" : " in two",
            "; name all places of a parameter once, in one Tied"));
    }
}

}  // namespace

std::vector<ParameterShape> shapes_of(const NamedTensors& parameters) {
  std::vector<ParameterShape> shapes;
  for (const auto& [name, tensor] : parameters)
    shapes.push_back({name, tensor.sizes().vec(), tensor.scalar_type()});
  return shapes;
}

void check_tied(const std::vector<Tied>& tied, int stages, const StageShapes& known) {
  for (const Tied& each : tied)
    check_one(each, stages, known);
  check_named_once(tied);
}

std::vector<Tied> find_tied(const std::vector<NamedTensors>& parameters_of_stages) {
  // In the order in which the tensors come, so that all ranks get the same.
  std::vector<Tied> all;
  std::map<const void*, size_t> numbers;
  for (size_t stage = 0; stage < parameters_of_stages.size(); ++stage)
    for (const auto& [name, tensor] : without_repeats(parameters_of_stages[stage])) {
      const auto [at, is_new] =
          numbers.emplace(tensor.unsafeGetTensorImpl(), all.size());
      if (is_new)
        all.emplace_back();
      all[at->second].places.push_back({static_cast<int>(stage), name});
    }
  std::erase_if(all, [](const Tied& each) { return each.places.size() < 2; });
  return all;
}

std::string to_text(const Tied& tied) {
  std::string places;
  for (const TiedParameter& place : tied.places)
    places += text(places.empty() ? "" : ", ", to_text(place));
  return text("Tied{", places, "}");
}

}  // namespace trireme::pipe
