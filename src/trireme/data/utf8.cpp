#include "trireme/data/utf8.h"

#include <cstdint>

namespace trireme::data {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

/// What follows from the first byte: how many bytes there are, and in which range the
/// second must be. That range keeps out what has a shorter form, surrogates, and what
/// lies beyond U+10FFFF.
struct Lead {
  size_t bytes;
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80)
    return {1};
  if (byte >= 0xc2 && byte <= 0xdf)
    return {2};
  if (byte >= 0xe0 && byte <= 0xef)
    return {
        3,
        static_cast<uint8_t>(byte == 0xe0 ? 0xa0 : 0x80),
        static_cast<uint8_t>(byte == 0xed ? 0x9f : 0xbf)};
  if (byte >= 0xf0 && byte <= 0xf4)
    return {
        4,
        static_cast<uint8_t>(byte == 0xf0 ? 0x90 : 0x80),
        static_cast<uint8_t>(byte == 0xf4 ? 0x8f : 0xbf)};
  return {0};
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const uint8_t first = byte_at(text, 0);
  const Lead lead = lead_of(first);
  if (lead.bytes == 1)
    return {first, 1, true};
  if (lead.bytes == 0)
    return {};
  char32_t value = first & (0xffU >> (lead.bytes + 1));
  for (size_t i = 1; i < lead.bytes; ++i) {
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xbf;
    if (i >= text.size() || byte_at(text, i) < low || byte_at(text, i) > high)
      return {kReplacement, i, false};
    value = value << 6 | (byte_at(text, i) & 0x3fU);
  }
  return {value, lead.bytes, true};
}

size_t begin_of_character(std::string_view text, size_t end) {
  size_t begin = end == 0 ? 0 : end - 1;
  while (begin > 0 && (byte_at(text, begin) & 0xc0U) == 0x80U)
    --begin;
  return begin;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  const auto add_tail = [&](int shift) { add(0x80 | (code_point >> shift & 0x3f)); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xc0 | code_point >> 6);
    add_tail(0);
  } else if (code_point < 0x10000) {
    add(0xe0 | code_point >> 12);
    add_tail(6);
    add_tail(0);
  } else {
    add(0xf0 | code_point >> 18);
    add_tail(12);
    add_tail(6);
    add_tail(0);
  }
}

size_t find_invalid(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = first_code_point(text.substr(at));
    if (!point.valid)
      return at;
    at += point.bytes;
  }
  return at;
}

std::string as_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t bad = find_invalid(text);
    valid += text.substr(0, bad);
    text.remove_prefix(bad);
    if (text.empty())
      break;
    append_utf8(valid, kReplacement);
    text.remove_prefix(first_code_point(text).bytes);
  }
  return valid;
}

}  // namespace trireme::data
