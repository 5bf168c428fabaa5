#include "trireme/data/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "trireme/data/unicode_tables.h"
#include "trireme/data/utf8.h"

namespace trireme::data {
namespace {

constexpr CharClass search(char32_t code_point) {
  // The last run that begins at the code point or before it; the first begins at 0.
  const uint32_t most = static_cast<uint32_t>(code_point) << 3 | 7U;
  const uint32_t* behind =
      std::upper_bound(std::begin(kClassRuns), std::end(kClassRuns), most);
  return static_cast<CharClass>(*(behind - 1) & 7U);
}

constexpr std::array<CharClass, 128> make_ascii() {
  std::array<CharClass, 128> classes{};
  for (char32_t point = 0; point < classes.size(); ++point)
    classes[point] = search(point);
  return classes;
}

constexpr std::array kAscii = make_ascii();

// No code point below this one changes: most text is done without a search.
constexpr char32_t kFirstNotNfc = kNfcRuns[0];

}  // namespace

CharClass class_of(char32_t code_point) {
  return code_point < kAscii.size() ? kAscii[code_point] : search(code_point);
}

bool may_change_in_nfc(char32_t code_point) {
  if (code_point < kFirstNotNfc)
    return false;
  const uint32_t* behind = std::upper_bound(
      std::begin(kNfcRuns), std::end(kNfcRuns), static_cast<uint32_t>(code_point));
  return (behind - std::begin(kNfcRuns)) % 2 == 1;
}

size_t find_not_nfc(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = first_code_point(text.substr(at));
    if (may_change_in_nfc(point.value))
      return at;
    at += point.bytes;
  }
  return at;
}

}  // namespace trireme::data
