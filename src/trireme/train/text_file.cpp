#include "trireme/train/text_file.h"

#include <fstream>
#include <iterator>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

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

void write_file(const fs::path& path, const std::string& contents) {
  const fs::path temporary = text(path.string(), ".tmp");
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << contents;
  out.close();
  std::error_code error;
  if (out)
    fs::rename(temporary, path, error);
  if (out && !error)
    return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw InvalidArgument(text(
      "[train] wanted to write ",
      in_quotes(path.string()),
      ", got ",
      error ? error.message() : "an error; is the disk full?"));
}

}  // namespace trireme::train
