#include "trireme/train/text_file.h"

#include <fstream>
#include <iterator>

namespace trireme::train {

namespace fs = std::filesystem;

std::optional<std::string> read_file(const fs::path& path) {
  std::error_code error;
  // A folder opens, and throws when it is read.
  if (!fs::is_regular_file(path, error))
    return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  std::string all{std::istreambuf_iterator<char>(in), {}};
  return in ? std::optional(std::move(all)) : std::nullopt;
}

}  // namespace trireme::train
