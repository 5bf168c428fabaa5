// A config from a TOML file and from the command line, and back to text.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "trireme/train/config.h"
#include "trireme/train/config_keys.h"

namespace trireme::train {

/// Sets what a TOML file says: tables are sections. InvalidArgument for everything that
/// is wrong, with file, line, key, what was expected and, of an unknown key, the
/// nearest.
void read_toml(Config& config, std::string_view toml, const std::string& file);

/// The same for a file; InvalidArgument if it cannot be read.
void read_config_file(Config& config, const std::string& path);

/// Sets one key by its full name to a value in words, as on the command line: "600",
/// "1e-3", "false", "a.txt,b.txt".
void set_key(Config& config, std::string_view name, std::string_view value);

/// Sets `--section.key value` and `--section.key=value`, in order. A key of true or
/// false may stand alone, which means true. InvalidArgument for anything else.
void read_arguments(Config& config, const std::vector<std::string>& words);

/// All keys with their values, as a TOML file that read_toml() reads; after each what
/// it means. A key that would be ignored beside the others is a comment.
std::string to_toml(const Config& config);

/// Whether a key has the value that it has in a Config{}.
bool is_default(const Config& config, const Key& key);

/// The value of a key as TOML writes it; a number is the shortest that reads back the
/// same.
std::string toml_value(const Config& config, const Key& key);

}  // namespace trireme::train
