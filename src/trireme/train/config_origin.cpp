#include "trireme/train/config_origin.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace trireme::train {
namespace {

bool is_part_of_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

bool names(const std::string& message, const std::string& key) {
  for (size_t at = message.find(key); at != std::string::npos;
       at = message.find(key, at + 1)) {
    const size_t end = at + key.size();
    const bool begins = at == 0 || !is_part_of_a_name(message[at - 1]);
    // A full stop may end a sentence.
    const bool stops = end < message.size() && message[end] == '.' &&
                       (end + 1 == message.size() || message[end + 1] == ' ');
    const bool ends =
        end == message.size() || stops || !is_part_of_a_name(message[end]);
    if (begins && ends)
      return true;
  }
  return false;
}

// Where the text after "[module] " begins.
size_t behind_module(const std::string& message) {
  const size_t end = message.starts_with("[") ? message.find("] ") : std::string::npos;
  return end == std::string::npos ? 0 : end + 2;
}

}  // namespace

std::string with_origins(const Config& config, const std::string& message) {
  std::vector<std::string> places;
  for (const auto& [key, origin] : config.origins)
    if (names(message, key) &&
        std::find(places.begin(), places.end(), origin) == places.end())
      places.push_back(origin);
  std::string prefix;
  for (const std::string& place : places)
    prefix += text(prefix.empty() ? "" : ", ", place);
  if (!prefix.empty())
    prefix += ": ";
  return std::string(message).insert(behind_module(message), prefix);
}

std::string about_key(std::string_view key, const std::string& message) {
  return text("[train] ", key, ": ", message.substr(behind_module(message)));
}

}  // namespace trireme::train
