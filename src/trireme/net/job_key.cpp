#include "trireme/net/job_key.h"

#include <algorithm>
#include <cerrno>
#include <string.h>  // explicit_bzero
#include <sys/random.h>

#include "trireme/core/error.h"
#include "trireme/net/secret_file.h"
#include "trireme/net/sha256.h"

namespace trireme::net {
namespace {

constexpr std::size_t kKeyDigits = 2 * JobKey::kBytes;

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

// 0 to 15, or -1.
int value_of_digit(char digit) {
  if (digit >= '0' && digit <= '9')
    return digit - '0';
  if (digit >= 'a' && digit <= 'f')
    return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F')
    return digit - 'A' + 10;
  return -1;
}

bool is_key_text(std::string_view hex) {
  return hex.size() == kKeyDigits &&
         std::all_of(hex.begin(), hex.end(), [](char digit) {
           return value_of_digit(digit) >= 0;
         });
}

}  // namespace

JobKey JobKey::random() {
  JobKey key;
  // Of so few bytes the system gives all or none.
  while (::getrandom(key.bytes_.data(), kBytes, 0) != ssize_t{kBytes})
    if (errno != EINTR)
      throw Error(trireme::text(
          "[net] expected random bytes from the system, got ",
          errno_text(errno),
          "; does a sandbox forbid getrandom()?"));
  return key;
}

JobKey JobKey::parse(std::string_view hex) {
  if (!is_key_text(hex))
    throw InvalidArgument(trireme::text(
        "[net] expected a job key of 64 hexadecimal digits, got ",
        hex.size(),
        hex.size() == kKeyDigits ? " characters that are not all digits"
                                 : " characters",
        "; make one with trireme keys job"));
  JobKey key;
  for (std::size_t i = 0; i < kBytes; ++i)
    key.bytes_[i] = static_cast<std::uint8_t>(
        value_of_digit(hex[2 * i]) << 4 | value_of_digit(hex[2 * i + 1]));
  return key;
}

JobKey JobKey::read(const std::filesystem::path& path) {
  // Errors quote the path.
  if (is_key_text(path.native()))
    throw InvalidArgument(
        "[net] expected the path of a job key file, got a job key itself; write it "
        "into a "
        "file, or set TRIREME_JOB_KEY");
  const SecretText content = read_secret(path, "a job key", kKeyDigits + 1);
  std::string_view line = content.view();
  if (line.ends_with('\n'))
    line.remove_suffix(1);
  return parse(line);
}

JobKey::~JobKey() {
  ::explicit_bzero(bytes_.data(), bytes_.size());
}

void JobKey::write(const std::filesystem::path& path) const {
  SecretText content(kKeyDigits + 1);
  std::string digits = text();
  std::copy(digits.begin(), digits.end(), content.data());
  ::explicit_bzero(digits.data(), digits.size());
  content.data()[kKeyDigits] = '\n';
  write_new_file(path, content.view(), 0600);
}

std::string JobKey::text() const {
  return hexadecimal(bytes_);
}

std::string JobKey::fingerprint() const {
  // The words in front keep it apart from any other hash that somebody may take of a
  // key.
  constexpr std::string_view kUse = "trireme job key fingerprint";
  std::array<std::byte, kUse.size() + kBytes> input;
  const auto after = std::transform(
      kUse.begin(), kUse.end(), input.begin(), [](char c) { return std::byte(c); });
  std::transform(
      bytes_.begin(), bytes_.end(), after, [](auto c) { return std::byte{c}; });
  const auto digest = sha256(input);
  ::explicit_bzero(input.data(), input.size());
  return hexadecimal(std::span(digest).first(4));
}

bool JobKey::operator==(const JobKey& other) const {
  // Looks at all bytes, so that the time it takes says nothing about where they differ.
  std::uint8_t differences = 0;
  for (std::size_t i = 0; i < kBytes; ++i)
    differences |= static_cast<std::uint8_t>(bytes_[i] ^ other.bytes_[i]);
  return differences == 0;
}

}  // namespace trireme::net
