// The secret that all processes of one job share.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trireme::net {

/// 32 random bytes. Nothing prints them by accident: text() is the only way out, and
/// the memory is wiped when it goes.
///
///     JobKey key = JobKey::random();
///     key.write("job.key");                       // mode 0600, never over a file that
///     is there JobKey same = JobKey::read("job.key");      // refused if others may
///     read the file
class JobKey {
 public:
  static constexpr std::size_t kBytes = 32;

  /// From the system's random numbers.
  static JobKey random();
  /// 64 hexadecimal digits. InvalidArgument without the text in its message.
  static JobKey parse(std::string_view hex);
  /// A file of one line that only its owner may read; InvalidArgument for another mode,
  /// owner or content.
  static JobKey read(const std::filesystem::path& path);

  JobKey(const JobKey&) = default;
  JobKey& operator=(const JobKey&) = default;
  ~JobKey();

  /// Writes a new file of mode 0600; InvalidArgument if one is there.
  void write(const std::filesystem::path& path) const;
  /// The 64 digits, for a child's stdin or environment. A secret.
  std::string text() const;
  std::span<const std::uint8_t, kBytes> bytes() const { return bytes_; }
  /// Eight digits that tell keys apart and give nothing away.
  std::string fingerprint() const;
  /// Takes the same time whatever the keys are.
  bool operator==(const JobKey& other) const;

 private:
  JobKey() = default;
  std::array<std::uint8_t, kBytes> bytes_ = {};
};

}  // namespace trireme::net
