// Any text as a config, as a file and as words of a command line: it is refused, or all
// values are within their limits and the config comes back from its own text.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/train/config_file.h"
#include "trireme/train/config_keys.h"

namespace {

using namespace trireme::train;

void must(bool holds) {
  if (!holds)
    std::abort();
}

void must_be_within(const Key& key, const Slot& slot) {
  if (const auto* whole = std::get_if<int64_t*>(&slot))
    must(
        static_cast<double>(**whole) >= key.least &&
        static_cast<double>(**whole) <= key.most);
  if (const auto* number = std::get_if<double*>(&slot))
    must(**number >= key.least && **number <= key.most);
}

template <class Read>
void try_it(Read read) {
  Config config;
  try {
    read(config);
  } catch (const trireme::InvalidArgument&) {
    return;
  }
  for (const Key& key : config_keys())
    must_be_within(key, key.slot(config));
  const std::string toml = to_toml(config);
  Config again;
  read_toml(again, toml, "again");  // must not throw
  must(to_toml(again) == toml);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_it([&](Config& config) { read_toml(config, text, "fuzz"); });
  std::vector<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    words.push_back(line);
  try_it([&](Config& config) { read_arguments(config, words); });
  return 0;
}
