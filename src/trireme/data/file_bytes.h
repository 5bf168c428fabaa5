// Numbers in the bytes of a file, and the refusal of files; for the parsers of this
// module.
#pragma once
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::data {

static_assert(
    std::endian::native == std::endian::little, "token files are little-endian");

/// The number at a place that is known to lie inside.
template <class Number>
Number number_at(std::span<const std::byte> bytes, size_t offset) {
  TRIREME_ASSERT(
      sizeof(Number) <= bytes.size() && offset <= bytes.size() - sizeof(Number));
  Number number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

inline bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// Throws InvalidArgument with the file, and what was expected of it and came.
template <class... Parts>
[[noreturn]] void refuse_file(const std::string& file, const Parts&... parts) {
  throw InvalidArgument(text(
      "[data] ",
      in_quotes(file),
      ": expected ",
      parts...,
      "; it is damaged, cut off, or of another format"));
}

}  // namespace trireme::data
