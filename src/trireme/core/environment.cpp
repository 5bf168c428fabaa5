#include "trireme/core/environment.h"

#include <charconv>
#include <cmath>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"

namespace trireme {
namespace {

[[noreturn]] void throw_missing(std::string_view name, const std::string& wanted) {
  throw InvalidArgument(text(
      "[core] expected ",
      name,
      " to be ",
      wanted,
      ", got none: it is not set; set it, or start the program with a launcher that "
      "does"));
}

[[noreturn]] void throw_wrong(
    std::string_view name, const std::string& wanted, std::string_view value) {
  throw InvalidArgument(text(
      "[core] expected ",
      name,
      " to be ",
      wanted,
      ", got ",
      in_quotes(value),
      "; correct it or unset it"));
}

std::string range_text(std::int64_t min, std::int64_t max) {
  return text("a whole number from ", min, " to ", max);
}

std::int64_t parse_integer(
    std::string_view name, std::string_view value, std::int64_t min, std::int64_t max) {
  const auto number = parse_number<std::int64_t>(value);
  if (!number || *number < min || *number > max) {
    throw_wrong(name, range_text(min, max), value);
  }
  return *number;
}

}  // namespace

Environment Environment::of_process() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const auto equals = line.find('=');
    if (equals != std::string_view::npos) {
      // emplace keeps the first of two, as getenv does.
      variables.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return Environment(std::move(variables));
}

std::optional<std::string_view> Environment::find(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) {
    return std::nullopt;
  }
  return found->second;
}

std::string Environment::string(std::string_view name) const {
  const auto value = find(name);
  if (!value) {
    throw_missing(name, "some text");
  }
  if (value->empty()) {
    throw_wrong(name, "some text", *value);
  }
  return std::string(*value);
}

std::int64_t Environment::integer(
    std::string_view name, std::int64_t min, std::int64_t max) const {
  const auto value = find(name);
  if (!value) {
    throw_missing(name, range_text(min, max));
  }
  return parse_integer(name, *value, min, max);
}

std::int64_t Environment::integer_or(
    std::string_view name,
    std::int64_t fallback,
    std::int64_t min,
    std::int64_t max) const {
  const auto value = find(name);
  return value ? parse_integer(name, *value, min, max) : fallback;
}

std::chrono::milliseconds Environment::seconds_or(
    std::string_view name,
    std::chrono::milliseconds fallback,
    std::chrono::seconds longest) const {
  const auto value = find(name);
  if (!value) {
    return fallback;
  }
  double seconds = 0;
  const char* end = value->data() + value->size();
  const auto [stop, error] =
      std::from_chars(value->data(), end, seconds, std::chars_format::fixed);
  const bool parsed = error == std::errc() && stop == end && std::isfinite(seconds);
  if (!parsed || seconds <= 0 || seconds > static_cast<double>(longest.count())) {
    throw_wrong(
        name,
        text("seconds above 0 and at most ", longest.count(), ", as 90 or 0.25"),
        *value);
  }
  return std::chrono::milliseconds(std::llround(std::ceil(seconds * 1000)));
}

Environment::Variables Environment::merged(const Variables& more) const {
  Variables all = variables_;
  for (const auto& [name, value] : more) {
    all[name] = value;
  }
  return all;
}

Environment::Variables Environment::with_prefix(std::string_view prefix) const {
  Variables result;
  for (auto entry = variables_.lower_bound(prefix);
       entry != variables_.end() && entry->first.starts_with(prefix);
       ++entry) {
    result.insert(*entry);
  }
  return result;
}

}  // namespace trireme
