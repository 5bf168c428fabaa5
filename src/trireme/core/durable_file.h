// Files that are there whole or not at all, also after the power was cut.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

/// A file in the making. It lies under a temporary name beside its place until finish()
/// has brought it to the disk; if that is never called, nothing stays. Every trouble
/// (no permission, no space) is InvalidArgument with the path and the system's reason.
///
///     DurableFile file("run/config.json");
///     file.write(json);
///     file.finish();
class DurableFile {
 public:
  explicit DurableFile(const std::filesystem::path& path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::string_view bytes);
  /// fsync, then the rename; what stood under the name before is replaced. The folder
  /// is not synced: do that once, after its last file.
  void finish();
  /// What was written so far.
  uint64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void fail(const char* what, int code) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

/// Writes a small file in one go; returns its size.
uint64_t write_durably(const std::filesystem::path& path, std::string_view bytes);

/// Whether a name stays in its folder: not empty, no slash, no "..".
bool is_plain_file_name(std::string_view name);

/// Brings the names in a folder to the disk. What a filesystem cannot sync is left to
/// it.
void sync_folder(const std::filesystem::path& folder);

/// A regular file, open for reading at any place. InvalidArgument with the path for
/// anything else; a pipe or a device of that name does not hold it up.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }
  /// Reads `bytes` bytes from `offset` on; InvalidArgument if the file has shrunk.
  void read(void* into, uint64_t bytes, uint64_t offset) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

/// The whole of a small file; InvalidArgument if it has more than `most` bytes.
std::string read_file(const std::filesystem::path& path, uint64_t most);

}  // namespace trireme
