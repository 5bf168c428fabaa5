// Numbers and strings as bytes, for the small headers that travel between machines.
// Little endian on every machine; what is read is trusted in nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace trireme::net {

/// Puts one value behind the other.
///
///     std::string header = ByteWriter().u8(3).string("weights").take();
class ByteWriter {
 public:
  ByteWriter& u8(std::uint8_t value) { return number(value, 1); }
  ByteWriter& u16(std::uint16_t value) { return number(value, 2); }
  ByteWriter& u32(std::uint32_t value) { return number(value, 4); }
  ByteWriter& u64(std::uint64_t value) { return number(value, 8); }
  ByteWriter& i64(std::int64_t value) {
    return number(static_cast<std::uint64_t>(value), 8);
  }
  ByteWriter& flag(bool value) { return u8(value ? 1 : 0); }
  /// A string of any bytes, with its length before it. InvalidArgument from 4 GiB on.
  ByteWriter& string(std::string_view value);

  const std::string& bytes() const { return bytes_; }
  /// The bytes, out of the writer, which begins anew.
  std::string take();

 private:
  ByteWriter& number(std::uint64_t value, std::size_t size) {
    char bytes[8];
    for (std::size_t i = 0; i < sizeof bytes; ++i)
      bytes[i] = static_cast<char>(value >> (8 * i) & 0xff);
    bytes_.append(bytes, size);
    return *this;
  }

  std::string bytes_;
};

/// Takes the values out again, in the same order. Whatever is cut short or above its
/// limit is InvalidArgument with the place and with `what` the bytes are said to be;
/// nothing is allocated for a length that was not checked. The bytes must outlive the
/// reader.
///
///     ByteReader reader(envelope.header, "a greeting");
///     const int version = reader.u8();
///     const std::string name = reader.string(256);
///     reader.expect_end();
class ByteReader {
 public:
  /// `what` is a literal: it is kept as it is.
  ByteReader(std::string_view bytes, const char* what) : bytes_(bytes), what_(what) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::int64_t i64() { return static_cast<std::int64_t>(number(8)); }
  /// A truth value: InvalidArgument for a byte that is neither 0 nor 1.
  bool flag();
  /// A string of at most `limit` bytes.
  std::string string(std::size_t limit) { return std::string(view(limit)); }
  /// The same without a copy; it lives as long as the bytes do.
  std::string_view view(std::size_t limit);

  /// All that nobody has taken yet; it lives as long as the bytes do.
  std::string_view rest() { return bytes_.substr(std::exchange(at_, bytes_.size())); }

  /// How many bytes nobody has taken yet.
  std::size_t left() const { return bytes_.size() - at_; }
  /// InvalidArgument unless all was taken.
  void expect_end() const;

 private:
  std::uint64_t number(std::size_t size) {
    if (left() < size)
      refuse_cut(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    at_ += size;
    return value;
  }
  [[noreturn]] void refuse_cut(std::size_t expected) const;

  std::string_view bytes_;
  const char* what_;
  std::size_t at_ = 0;
};

}  // namespace trireme::net
