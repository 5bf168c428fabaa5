// The bytes of a file, mapped into memory, for reading only.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace trireme::data {

/// A regular file as memory. Pages come when they are read and go when memory is short,
/// so the file may be larger than the machine. Copies share the mapping, which ends
/// with the last of them. Any thread may read.
///
///     const MappedFile file("train.bin");
///     const std::byte first = file.bytes().front();
///
/// Nobody may shorten the file while it is mapped: the system ends the process (SIGBUS)
/// that then reads beyond the new end. Writing a new file and renaming it is fine.
class MappedFile {
 public:
  /// InvalidArgument with the path and the reason if it cannot be opened or is no
  /// regular file.
  explicit MappedFile(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const { return bytes_; }
  /// The same as text.
  std::string_view text() const;
  /// Keeps the mapping while it lives.
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace trireme::data
