#include "trireme/data/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <vector>

#include "trireme/data/nfc_tables.h"
#include "trireme/data/unicode.h"
#include "trireme/data/utf8.h"

namespace trireme::data {
namespace {

using CodePoints = std::vector<char32_t>;

// Korean syllables follow from a formula: a leading consonant, a vowel, and at times a
// consonant after them.
constexpr char32_t kSyllable = 0xac00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11a7;
constexpr char32_t kLeads = 19, kVowels = 21, kTails = 28;

bool is_syllable(char32_t point) {
  return point >= kSyllable && point < kSyllable + kLeads * kVowels * kTails;
}

/// What the tables say, ready for searches.
class Tables {
 public:
  static const Tables& get() {
    static const Tables tables;
    return tables;
  }

  /// The two that a code point is made of; nothing if it is not made of two.
  const std::pair<char32_t, char32_t>* parts(char32_t point) const {
    const auto found = parts_.find(point);
    return found == parts_.end() ? nullptr : &found->second;
  }
  /// What takes the place of a code point; nothing if it stays.
  const CodePoints* replacement(char32_t point) const {
    const auto found = replaced_.find(point);
    return found == replaced_.end() ? nullptr : &found->second;
  }
  std::optional<char32_t> whole(char32_t first, char32_t second) const {
    const auto found = wholes_.find(key_of(first, second));
    return found == wholes_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  Tables() {
    for (const uint32_t* at = std::begin(kPairs); at != std::end(kPairs); at += 3) {
      parts_.emplace(at[2], std::pair(at[0], at[1]));
      wholes_.emplace(key_of(at[0], at[1]), at[2]);
    }
    for (const uint32_t* at = std::begin(kReplaced); at != std::end(kReplaced);
         at += 2 + at[1])
      replaced_.emplace(at[0], CodePoints(at + 2, at + 2 + at[1]));
  }
  static uint64_t key_of(char32_t first, char32_t second) {
    return uint64_t{first} << 32 | second;
  }

  std::unordered_map<char32_t, std::pair<char32_t, char32_t>> parts_;
  std::unordered_map<uint64_t, char32_t> wholes_;
  std::unordered_map<char32_t, CodePoints> replaced_;
};

/// Marks of one letter stand in the order of these numbers; 0: no mark.
int order_of(char32_t point) {
  const uint32_t most = static_cast<uint32_t>(point) << 8 | 0xffU;
  const uint32_t* behind =
      std::upper_bound(std::begin(kOrderRuns), std::end(kOrderRuns), most);
  return static_cast<int>(*(behind - 1) & 0xffU);
}

void decompose(char32_t point, CodePoints& out) {
  if (is_syllable(point)) {
    const char32_t number = point - kSyllable;
    out.push_back(kLead + number / (kVowels * kTails));
    out.push_back(kVowel + number / kTails % kVowels);
    if (number % kTails != 0)
      out.push_back(kTail + number % kTails);
  } else if (const auto* pair = Tables::get().parts(point)) {
    decompose(pair->first, out);
    out.push_back(pair->second);
  } else if (const CodePoints* others = Tables::get().replacement(point)) {
    for (const char32_t other : *others)
      decompose(other, out);
  } else {
    out.push_back(point);
  }
}

/// Sorts each run of marks.
void put_in_order(CodePoints& points) {
  auto begin = points.begin();
  while (begin != points.end()) {
    const auto is_mark = [](char32_t point) { return order_of(point) != 0; };
    begin = std::find_if(begin, points.end(), is_mark);
    const auto end = std::find_if_not(begin, points.end(), is_mark);
    std::stable_sort(
        begin, end, [](char32_t a, char32_t b) { return order_of(a) < order_of(b); });
    begin = end;
  }
}

std::optional<char32_t> joined(char32_t first, char32_t second) {
  if (first >= kLead && first < kLead + kLeads && second >= kVowel &&
      second < kVowel + kVowels)
    return kSyllable + ((first - kLead) * kVowels + second - kVowel) * kTails;
  if (is_syllable(first) && (first - kSyllable) % kTails == 0 && second > kTail &&
      second < kTail + kTails)
    return first + second - kTail;
  return Tables::get().whole(first, second);
}

CodePoints compose(const CodePoints& points) {
  CodePoints out;
  std::optional<size_t> letter;  // the last one that is no mark
  int last = -1;                 // the order of what came after it; -1: nothing yet
  for (const char32_t point : points) {
    const int order = order_of(point);
    // A mark of the same order between the two keeps them apart.
    if (letter && last < order)
      if (const auto whole = joined(out[*letter], point)) {
        out[*letter] = *whole;
        continue;
      }
    last = order == 0 ? -1 : order;
    if (order == 0)
      letter = out.size();
    out.push_back(point);
  }
  return out;
}

}  // namespace

std::string nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    // All before the code point that an unsafe one follows stays as it is; from there
    // on to the next safe one is a text for itself.
    const size_t unsafe = find_not_nfc(text);
    size_t begin = unsafe == text.size() ? unsafe : begin_of_character(text, unsafe);
    out += text.substr(0, begin);
    CodePoints points;
    for (size_t end = begin; begin < text.size(); begin = end) {
      const CodePoint point = first_code_point(text.substr(begin));
      if (begin > unsafe && !may_change_in_nfc(point.value))
        break;
      decompose(point.value, points);
      end += point.bytes;
    }
    put_in_order(points);
    for (const char32_t point : compose(points))
      append_utf8(out, point);
    text.remove_prefix(begin);
  }
  return out;
}

}  // namespace trireme::data
