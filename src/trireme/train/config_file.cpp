#include "trireme/train/config_file.h"

#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <toml++/toml.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"
#include "trireme/core/proc_text.h"
#include "trireme/train/config_keys.h"

namespace trireme::train {
namespace {

const std::string kCommandLine = "the command line";

std::string place(const std::string& file, const toml::source_region& source) {
  return text(file, ":", source.begin.line);
}

// A value of the types that keys have; nothing for dates and the like.
std::optional<Value> to_value(const toml::node& node) {
  if (const auto flag = node.as_boolean())
    return Value(flag->get());
  if (const auto whole = node.as_integer())
    return Value(whole->get());
  if (const auto number = node.as_floating_point())
    return Value(number->get());
  if (const auto word = node.as_string())
    return Value(word->get());
  const toml::array* list = node.as_array();
  if (list == nullptr)
    return std::nullopt;
  std::vector<std::string> items;
  for (const toml::node& item : *list) {
    if (!item.is_string())
      return std::nullopt;
    items.push_back(item.as_string()->get());
  }
  return Value(items);
}

void read_section(
    Config& config,
    std::string_view section,
    const toml::table& table,
    const std::string& file) {
  for (const auto& [name, node] : table) {
    const std::string origin = place(file, name.source());
    const Key& key = find_key(section, name.str(), origin);
    const auto value = to_value(node);
    if (!value)
      refuse_value(key, "a value of another kind", origin);
    assign(config, key, *value, origin);
  }
}

toml::table parse(std::string_view toml, const std::string& file) {
  try {
    return toml::parse(toml, file);
  } catch (const toml::parse_error& error) {
    throw InvalidArgument(text(
        "[train] ",
        place(file, error.source()),
        ": expected TOML, got ",
        escaped(error.description()),
        "; correct the file"));
  }
}

std::vector<std::string> split_list(std::string_view value) {
  std::vector<std::string> items;
  while (!value.empty()) {
    const size_t comma = value.find(',');
    items.emplace_back(value.substr(0, comma));
    value = comma == std::string_view::npos ? "" : value.substr(comma + 1);
  }
  return items;
}

// What the words of the command line mean for a slot of that type.
Value read_word(std::string_view word, bool*) {
  if (word == "true" || word == "false")
    return word == "true";
  return std::string(word);
}
Value read_word(std::string_view word, int64_t*) {
  if (const auto number = parse_number<int64_t>(word))
    return *number;
  return std::string(word);
}
Value read_word(std::string_view word, double*) {
  if (const auto number = parse_number<double>(word))
    return *number;
  return std::string(word);
}
Value read_word(std::string_view word, std::string*) {
  return std::string(word);
}
Value read_word(std::string_view word, std::vector<std::string>*) {
  return split_list(word);
}

const Key& key_of(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos)
    throw InvalidArgument(text(
        "[train] ",
        kCommandLine,
        ": expected --section.key, got ",
        in_quotes(text("--", name)),
        "; trireme train --print-config lists them"));
  return find_key(name.substr(0, dot), name.substr(dot + 1), kCommandLine);
}

bool is_flag(const Key& key) {
  Config config;
  return std::holds_alternative<bool*>(key.slot(config));
}

void set(Config& config, const Key& key, std::string_view value) {
  const Value read =
      std::visit([&](auto* slot) { return read_word(value, slot); }, key.slot(config));
  assign(config, key, read, kCommandLine);
}

// A text in TOML, with what must be escaped.
std::string toml_text(const std::string& value) {
  std::ostringstream out;
  out << toml::value<std::string>(value);
  return out.str();
}

// The shortest number that reads back the same, as a number with a point.
std::string toml_number(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  const std::string shortest(digits.data(), end.ptr);
  return shortest.find_first_of(".e") == std::string::npos ? shortest + ".0" : shortest;
}

std::string slot_value(const Slot& slot) {
  if (const auto* flag = std::get_if<bool*>(&slot))
    return **flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t*>(&slot))
    return std::to_string(**whole);
  if (const auto* word = std::get_if<std::string*>(&slot))
    return toml_text(**word);
  if (const auto* number = std::get_if<double*>(&slot))
    return toml_number(**number);
  std::ostringstream out;
  out << "[";
  const char* comma = "";
  for (const std::string& item : **std::get_if<std::vector<std::string>*>(&slot)) {
    out << comma << toml_text(item);
    comma = ", ";
  }
  out << "]";
  return out.str();
}

}  // namespace

void read_toml(Config& config, std::string_view toml, const std::string& file) {
  const toml::table all = parse(toml, file);
  for (const auto& [name, node] : all) {
    const toml::table* section = node.as_table();
    if (section == nullptr)
      throw InvalidArgument(text(
          "[train] ",
          place(file, name.source()),
          ": expected a section, got the key ",
          in_quotes(name.str()),
          " outside of one; write [section] above it"));
    if (section->empty())
      check_section(name.str(), place(file, name.source()));
    read_section(config, name.str(), *section, file);
  }
}

void read_config_file(Config& config, const std::string& path) {
  const auto all = read_text_file(path);
  if (!all)
    throw InvalidArgument(text(
        "[train] expected a config file that can be read, got ",
        in_quotes(path),
        "; correct the path"));
  read_toml(config, *all, path);
}

void set_key(Config& config, std::string_view name, std::string_view value) {
  set(config, key_of(name), value);
}

void read_arguments(Config& config, const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (!word.starts_with("--"))
      throw InvalidArgument(text(
          "[train] ",
          kCommandLine,
          ": expected --section.key value, got ",
          in_quotes(word),
          "; trireme train --print-config lists the keys"));
    const size_t equals = word.find('=');
    const Key& key = key_of(word.substr(2, equals - 2));
    if (equals != std::string_view::npos) {
      set(config, key, word.substr(equals + 1));
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      set(config, key, words[++i]);
    } else if (is_flag(key)) {
      set(config, key, "true");
    } else {
      throw InvalidArgument(text(
          "[train] ",
          kCommandLine,
          ": expected ",
          allowed_values(key),
          " after ",
          word,
          ", got nothing; give one"));
    }
  }
}

std::string toml_value(const Config& config, const Key& key) {
  Config copy = config;
  return slot_value(key.slot(copy));
}

bool is_default(const Config& config, const Key& key) {
  return toml_value(config, key) == toml_value({}, key);
}

std::string to_toml(const Config& config) {
  std::string out;
  std::string_view section;
  for (const Key& key : config_keys()) {
    if (key.section != section)
      out += text(out.empty() ? "" : "\n", "[", key.section, "]\n");
    section = key.section;
    const bool ignored = !why_ignored(config, key).empty() && is_default(config, key);
    const std::string line =
        text(ignored ? "# " : "", key.name, " = ", toml_value(config, key));
    const size_t blanks = line.size() < 40 ? 40 - line.size() : 1;
    out += key.does.empty()
               ? text(line, "\n")
               : text(line, std::string(blanks, ' '), "# ", key.does, "\n");
  }
  return out;
}

}  // namespace trireme::train
