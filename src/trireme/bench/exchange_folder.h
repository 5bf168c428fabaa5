// Where the two sides of a benchmark leave files for each other.
#pragma once
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "trireme/core/error.h"

namespace trireme::bench {

/// A folder for what the two sides hand each other; goes with this object.
class ExchangeFolder {
 public:
  ExchangeFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "trireme-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw Error(text(
          "[bench] expected to make ",
          pattern,
          ", got ",
          errno_text(errno),
          "; free room there"));
    path_ = pattern;
  }
  ~ExchangeFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ExchangeFolder(const ExchangeFolder&) = delete;
  ExchangeFolder& operator=(const ExchangeFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(
      const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace trireme::bench
