// The variables of a process as a value, so that what depends on them can be tested,
// and one place that says what is wrong with a variable.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

/// A snapshot of environment variables. It never changes after it was made, so any
/// thread may read it. Whatever is missing or wrong gives InvalidArgument with the
/// variable, its value and what was expected; a variable that is set to nothing counts
/// as wrong.
///
///     auto env = Environment::of_process();
///     auto rank = env.integer("RANK", 0, 999);           // must be there
///     auto port = env.integer_or("PORT", 29500, 1, 65535);
class Environment {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;

  /// No variables at all.
  Environment() = default;

  /// These variables, for tests and for children that are about to start.
  explicit Environment(Variables variables) : variables_(std::move(variables)) {}
  /// The same, written out: `Environment{{"RANK", "0"}, {"WORLD_SIZE", "2"}}`.
  Environment(std::initializer_list<Variables::value_type> variables)
      : variables_(variables) {}

  /// The variables of this process as they are now.
  static Environment of_process();

  /// The value as it is, or nothing; it lives as long as this object.
  std::optional<std::string_view> find(std::string_view name) const;

  /// Whether the variable is set, be it to nothing.
  bool has(std::string_view name) const { return find(name).has_value(); }

  /// The value, which must be there and not be empty.
  std::string string(std::string_view name) const;

  /// The value, which must be a whole number from `min` to `max`: digits and a minus
  /// sign, no spaces, no plus.
  std::int64_t integer(std::string_view name, std::int64_t min, std::int64_t max) const;

  /// As integer, but `fallback` when the variable is not set.
  std::int64_t integer_or(
      std::string_view name,
      std::int64_t fallback,
      std::int64_t min,
      std::int64_t max) const;

  /// The value as a time in seconds (`90` or `0.25`), above zero and at most `longest`,
  /// in milliseconds rounded up; `fallback` when the variable is not set.
  std::chrono::milliseconds seconds_or(
      std::string_view name,
      std::chrono::milliseconds fallback,
      std::chrono::seconds longest) const;

  /// All variables whose names start so, in order of name.
  Variables with_prefix(std::string_view prefix) const;

  /// All variables, with `more` in place of those that have the same names.
  Variables merged(const Variables& more) const;

 private:
  Variables variables_;
};

}  // namespace trireme
