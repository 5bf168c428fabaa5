// Every key of a config, once: its name, its meaning, where it lies and what it may be.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/train/config.h"

namespace trireme::train {

/// Where the value of a key lies in a config.
using Slot =
    std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*>;

/// One key.
struct Key {
  std::string_view section;
  std::string_view name;
  /// What it means, in a line.
  std::string_view does;
  Slot (*slot)(Config&);
  /// The least and the most that a number may be.
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  /// Words that a text may be; empty: any.
  std::vector<std::string_view> words{};
};

/// All keys, section by section.
const std::vector<Key>& config_keys();

/// "training.steps".
std::string full_name(const Key& key);

/// What the key may be: "a whole number of at least 1", "one of AdamW, SGD".
std::string allowed_values(const Key& key);

/// InvalidArgument that says who gave a key what, and what it may be.
[[noreturn]] void refuse_value(
    const Key& key, const std::string& got, const std::string& origin);

/// What makes the key one that nobody reads in this config ("model.hf_assets_path,
/// whose config.json says it"); empty if somebody does.
std::string why_ignored(const Config& config, const Key& key);

/// A value as a file or a command line gives it. A list is given as its items.
using Value =
    std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

/// Sets a key of a config. `origin` stands in front of errors: "job.toml:3", or "the
/// command line". InvalidArgument says what was expected.
void assign(
    Config& config, const Key& key, const Value& value, const std::string& origin);

/// InvalidArgument unless there is such a section.
void check_section(std::string_view section, const std::string& origin);

/// The key of that name. InvalidArgument names the nearest one, or the sections.
const Key& find_key(
    std::string_view section, std::string_view name, const std::string& origin);

}  // namespace trireme::train
