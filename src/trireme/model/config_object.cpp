#include "trireme/model/config_object.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::model {
namespace {

using Json = nlohmann::ordered_json;

// Larger ones are no sizes of models; products of two still fit 64 bits.
constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
// Copying and writing JSON takes stack for each level; no config has many.
constexpr int kDeepest = 32;

}  // namespace

struct ConfigObject::Content {
  Json json;
  const Json* find(const std::string& key) const {
    const auto found = json.find(key);
    return found == json.end() || found->is_null() ? nullptr : &*found;
  }
};

ConfigObject::ConfigObject(std::shared_ptr<const Content> content, std::string where)
    : content_(std::move(content)), where_(std::move(where)) {}

ConfigObject ConfigObject::parse(std::string_view json, std::string where) {
  bool too_deep = false;
  Json parsed = Json::parse(
      json,
      [&](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
        too_deep = too_deep || depth > kDeepest;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  if (too_deep)
    throw InvalidArgument(text(
        "[model] ",
        where,
        ": expected at most ",
        kDeepest,
        " levels, got more; correct the file"));
  if (!parsed.is_object())
    throw InvalidArgument(text(
        "[model] ",
        where,
        ": expected a JSON object, got ",
        parsed.is_discarded() ? text("what is no JSON: ", in_quotes(json))
                              : text("a ", parsed.type_name()),
        "; correct the file"));
  return {
      std::make_shared<const Content>(Content{std::move(parsed)}), std::move(where)};
}

bool ConfigObject::has(const std::string& key) const {
  return content_->find(key) != nullptr;
}

std::string ConfigObject::first_of(std::initializer_list<const char*> keys) const {
  for (const char* key : keys)
    if (has(key))
      return key;
  return *keys.begin();
}

int64_t ConfigObject::whole(
    const std::string& key, int64_t fallback, int64_t least) const {
  const Json* value = content_->find(key);
  if (value == nullptr)
    return fallback;
  const bool fits = value->is_number_unsigned()
                        ? value->get<uint64_t>() <= static_cast<uint64_t>(kLargest)
                        : value->is_number_integer();
  if (!fits || value->get<int64_t>() < least || value->get<int64_t>() > kLargest)
    refuse(key, text("a whole number between ", least, " and ", kLargest));
  return value->get<int64_t>();
}

double ConfigObject::number(
    const std::string& key, double fallback, double least, double most) const {
  const Json* value = content_->find(key);
  if (value == nullptr)
    return fallback;
  const double got = value->is_number() ? value->get<double>() : std::nan("");
  if (!(got >= least && got <= most))
    refuse(key, text("a number between ", least, " and ", most));
  return got;
}

bool ConfigObject::flag(const std::string& key, bool fallback) const {
  const Json* value = content_->find(key);
  if (value == nullptr)
    return fallback;
  if (!value->is_boolean())
    refuse(key, "true or false");
  return value->get<bool>();
}

std::string ConfigObject::word(
    const std::string& key, const std::string& fallback) const {
  const Json* value = content_->find(key);
  if (value == nullptr)
    return fallback;
  if (!value->is_string())
    refuse(key, "a text");
  return value->get<std::string>();
}

std::optional<ConfigObject> ConfigObject::object(const std::string& key) const {
  const Json* value = content_->find(key);
  if (value == nullptr)
    return std::nullopt;
  if (!value->is_object())
    refuse(key, "an object");
  return ConfigObject(
      std::make_shared<const Content>(Content{*value}), text(where_, ", ", key));
}

// JSON has quotes of its own.
std::string ConfigObject::shown(const std::string& key) const {
  constexpr size_t kMost = 80;
  const Json* value = content_->find(key);
  if (value == nullptr)
    return "none";
  const std::string json = value->dump(-1, ' ', false, Json::error_handler_t::replace);
  return escaped(json.size() > kMost ? text(json.substr(0, kMost), "...") : json);
}

void ConfigObject::refuse(const std::string& key, const std::string& wanted) const {
  throw InvalidArgument(text(
      "[model] ",
      where_,
      ": expected \"",
      key,
      "\" to be ",
      wanted,
      ", got ",
      shown(key),
      "; correct it"));
}

void ConfigObject::not_supported(
    const std::string& key, const std::string& remedy) const {
  throw NotSupported(text(
      "[model] ",
      where_,
      ": expected a known \"",
      key,
      "\", got ",
      shown(key),
      "; ",
      remedy));
}

ConfigObject ConfigObject::with(
    const std::string& key, const std::string& value) const {
  Content changed = *content_;
  changed.json[key] = Json::parse(value);
  return {std::make_shared<const Content>(std::move(changed)), where_};
}

ConfigObject ConfigObject::with_missing(const ConfigObject& other) const {
  Content both = *content_;
  for (const auto& [key, value] : other.content_->json.items())
    if (!both.json.contains(key))
      both.json[key] = value;
  return {std::make_shared<const Content>(std::move(both)), where_};
}

std::string ConfigObject::json_of(const std::string& key) const {
  const Json* value = content_->find(key);
  return value == nullptr ? "null"
                          : value->dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ConfigObject::dump() const {
  constexpr auto kReplace = Json::error_handler_t::replace;
  return text(content_->json.dump(2, ' ', false, kReplace), "\n");
}

void check_at_least_one(const char* key, int64_t value) {
  if (value < 1)
    throw InvalidArgument(text(
        "[model] expected \"", key, "\" of at least 1, got ", value, "; correct it"));
}

void check_divides(const char* key, int64_t value, const char* part_key, int64_t part) {
  if (part == 0 || value % part != 0)
    throw InvalidArgument(text(
        "[model] expected \"",
        key,
        "\" that \"",
        part_key,
        "\" divides, got ",
        value,
        " and ",
        part,
        "; change one of them"));
}

}  // namespace trireme::model
