// Files that hold secrets: read only if nobody else may read them, made whole or not at
// all.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace trireme::net {

/// Text that is wiped from memory when it goes. It can be moved, which leaves no copy.
class SecretText {
 public:
  explicit SecretText(std::size_t bytes = 0) : bytes_(bytes) {}
  SecretText(SecretText&&) noexcept = default;
  SecretText& operator=(SecretText&&) = delete;
  ~SecretText();

  char* data() { return bytes_.data(); }
  std::string_view view() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::vector<char> bytes_;
};

/// The content of a file that holds a secret; `what` names it in errors, as "a job
/// key". InvalidArgument unless it is a regular file (no link) of this user that nobody
/// else may read or write, of 1 to `most` bytes.
///
///     const SecretText pem = read_secret("worker.key", "a private key", 16 << 10);
SecretText read_secret(
    const std::filesystem::path& path, const std::string& what, std::size_t most);

/// Makes a new file of exactly this mode, whatever the umask is, and brings it to the
/// disk. It is there whole or not at all. InvalidArgument if something has that name
/// already.
void write_new_file(
    const std::filesystem::path& path, std::string_view content, mode_t mode);

}  // namespace trireme::net
