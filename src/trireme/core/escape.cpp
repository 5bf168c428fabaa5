#include "trireme/core/escape.h"

namespace trireme {
namespace {

constexpr std::size_t kQuotedBytes = 80;

unsigned char byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

bool in_c1(unsigned char byte) {
  return byte >= 0x80 && byte <= 0x9f;
}

// Terminals also obey the C1 controls (0x9b starts a command as ESC [ does), both as
// UTF-8 (0xc2 0x9b) and as a bare byte. Elsewhere in UTF-8 such bytes are innocent.
bool is_control(std::string_view text, std::size_t i) {
  const unsigned char byte = byte_at(text, i);
#ifdef TRIREME_PLANTED_BUG  // the fuzzer must find it
  if (byte == 0x1b) {
    return false;
  }
#endif
  if (byte < 0x20 || byte == 0x7f) {
    return true;
  }
  if (byte == 0xc2) {
    return in_c1(byte_at(text, i + 1));
  }
  const unsigned char before = i == 0 ? 0 : byte_at(text, i - 1);
  return in_c1(byte) && (before < 0x80 || before == 0xc2);
}

void append_escape(std::string& out, unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  switch (byte) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_control(text, i)) {
      append_escape(out, byte_at(text, i));
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  std::size_t end = text.size();
  if (end > kQuotedBytes) {
    end = kQuotedBytes;
    while (end > 0 && (byte_at(text, end) & 0xc0) == 0x80) {
      --end;  // not in the middle of a character
    }
  }
  const char* tail = end < text.size() ? "\"..." : "\"";
  return '"' + escaped(text.substr(0, end)) + tail;
}

}  // namespace trireme
