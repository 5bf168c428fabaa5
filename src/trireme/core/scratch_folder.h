// A folder for a while.
#pragma once
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "trireme/core/error.h"

namespace trireme {

/// An empty folder among the temporary files, which goes with this object and all that
/// is in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "trireme-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw Error(text(
          "[core] expected to make the folder ",
          pattern,
          ", got ",
          errno_text(errno),
          "; set TMPDIR to a folder that this user may write to"));
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file, with the folders above it.
  std::filesystem::path write(
      const std::filesystem::path& name, const std::string& content) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace trireme
