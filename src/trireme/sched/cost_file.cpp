#include "trireme/sched/cost_file.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::sched {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// Finds the place of the first error in a text that is no JSON: all exceptions name it
// in words that are not ours, and some not at all.
struct ErrorFinder : nlohmann::detail::json_sax_acceptor<Json> {
  size_t byte = 1;  // counted from 1; after the last one, if the text ends too early
  std::string reason;

  bool parse_error(
      size_t position, const std::string& /*token*/, const Json::exception& error) {
    byte = position;
    reason = error.what();
    // "[json.exception.…] parse error at …: syntax error while parsing … - reason"
    for (const std::string_view before : {"] ", " - "})
      if (const size_t at = reason.find(before); at != std::string::npos)
        reason.erase(0, at + before.size());
    return false;
  }
};

[[noreturn]] void refuse_json(std::string_view json, const std::string& file) {
  ErrorFinder error;
  Json::sax_parse(json, &error);
  const std::string_view before = json.substr(0, error.byte - 1);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  throw InvalidArgument(text(
      "[sched] ",
      file,
      ", line ",
      line,
      ", column ",
      column,
      ": expected JSON, got text that is not: ",
      escaped(error.reason),
      "; correct the file"));
}

// JSON has quotes of its own.
std::string shortened(const std::string& json) {
  constexpr size_t kMost = 80;
  return escaped(json.size() > kMost ? json.substr(0, kMost) + "..." : json);
}

// Reads the fields of one object, and then complains of those that nobody has read.
class Fields {
 public:
  Fields(const Json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    if (!object.is_object())
      refuse("an object", object.dump());
  }

  /// A number of at least 0; `fallback` if it is missing and may be.
  double number(const char* name, const double* fallback) {
    read_.push_back(name);
    const auto found = object_.find(name);
    if (found == object_.end()) {
      if (fallback == nullptr)
        refuse(text("a number \"", name, "\""), "none");
      return *fallback;
    }
    // JSON has no infinity; a link without a limit has null.
    if (found->is_null() && fallback != nullptr)
      return *fallback;
    if (!found->is_number() || found->get<double>() < 0 ||
        !std::isfinite(found->get<double>()))
      refuse(text("\"", name, "\" to be a number of at least 0"), found->dump());
    return found->get<double>();
  }

  int whole(const char* name) {
    const double value = number(name, nullptr);
    if (value != std::floor(value) || value > 1e9)
      refuse(text("\"", name, "\" to be a whole number"), text(value));
    return static_cast<int>(value);
  }

  std::string word(const char* name) {
    read_.push_back(name);
    const auto found = object_.find(name);
    if (found == object_.end())
      return {};
    if (!found->is_string())
      refuse(text("\"", name, "\" to be a text"), found->dump());
    return found->get<std::string>();
  }

  const Json* list(const char* name) {
    read_.push_back(name);
    const auto found = object_.find(name);
    if (found == object_.end())
      return nullptr;
    if (!found->is_array())
      refuse(text("\"", name, "\" to be a list"), found->dump());
    return &*found;
  }

  void finish() const {
    for (const auto& [name, value] : object_.items())
      if (std::find(read_.begin(), read_.end(), name) == read_.end())
        refuse("known fields only", text("\"", escaped(name), "\""));
  }

  [[noreturn]] void refuse(const std::string& wanted, const std::string& got) const {
    throw InvalidArgument(text(
        "[sched] ",
        where_,
        ": expected ",
        wanted,
        ", got ",
        shortened(got),
        "; correct the file"));
  }

 private:
  const Json& object_;
  std::string where_;
  std::vector<std::string> read_;
};

constexpr double kNone = 0;

StageCosts read_stage(Fields& fields) {
  StageCosts stage;
  stage.forward = fields.number("forward", nullptr);
  stage.input_grad = fields.number("input_grad", nullptr);
  stage.weight_grad = fields.number("weight_grad", nullptr);
  const double both = stage.input_grad + stage.weight_grad;
  stage.backward = fields.number("backward", &both);
  stage.activation_bytes = fields.number("activation_bytes", &kNone);
  stage.weight_bytes = fields.number("weight_bytes", &kNone);
  return stage;
}

Link read_link(Fields& fields) {
  const double endless = std::numeric_limits<double>::infinity();
  Link link{.from = fields.whole("from"), .to = fields.whole("to")};
  link.latency = fields.number("latency", &kNone);
  link.bandwidth = fields.number("bandwidth", &endless);
  return link;
}

LayerCosts read_layer(Fields& fields) {
  return {.name = fields.word("name"), .costs = read_stage(fields)};
}

// Reads every entry of a list of objects.
template <class Read>
auto read_list(const Json* list, const std::string& file, const char* what, Read read) {
  std::vector<decltype(read(std::declval<Fields&>()))> out;
  if (list == nullptr)
    return out;
  for (size_t i = 0; i < list->size(); ++i) {
    Fields fields((*list)[i], text(file, ", ", what, " ", i));
    out.push_back(read(fields));
    fields.finish();
  }
  return out;
}

Json stage_json(const StageCosts& costs) {
  return {
      {"forward", costs.forward},
      {"input_grad", costs.input_grad},
      {"weight_grad", costs.weight_grad},
      {"backward", costs.backward},
      {"activation_bytes", costs.activation_bytes},
      {"weight_bytes", costs.weight_bytes}};
}

}  // namespace

CostFile parse_costs(std::string_view json, const std::string& name) {
  const std::string file = escaped(name);
  Json root;
  try {
    root = Json::parse(json);
  } catch (const Json::exception&) {
    refuse_json(json, file);
  }
  Fields fields(root, file);
  if (const int version = fields.whole("version"); version != kVersion)
    fields.refuse(text("version ", kVersion), text(version));
  CostFile out;
  out.costs.stages = read_list(fields.list("stages"), file, "stage", read_stage);
  out.costs.links = read_list(fields.list("links"), file, "link", read_link);
  out.layers = read_list(fields.list("layers"), file, "layer", read_layer);
  out.costs.message_bytes = fields.number("message_bytes", &kNone);
  fields.finish();
  if (out.costs.stages.empty() && out.layers.empty())
    fields.refuse("stages or layers", "neither");
  return out;
}

std::string to_json(const CostFile& file) {
  Json root{{"version", kVersion}, {"message_bytes", file.costs.message_bytes}};
  for (const StageCosts& stage : file.costs.stages)
    root["stages"].push_back(stage_json(stage));
  for (const Link& link : file.costs.links)
    root["links"].push_back(
        {{"from", link.from},
         {"to", link.to},
         {"latency", link.latency},
         {"bandwidth", std::isinf(link.bandwidth) ? Json() : Json(link.bandwidth)}});
  for (const LayerCosts& layer : file.layers) {
    Json entry{{"name", layer.name}};
    entry.update(stage_json(layer.costs));
    root["layers"].push_back(std::move(entry));
  }
  return root.dump(2) + "\n";
}

}  // namespace trireme::sched
