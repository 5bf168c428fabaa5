// Byte pair encoding: the merges of a word.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trireme::data {

/// Finds a text without making a string of it.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

struct BpeOptions {
  /// The bytes of each token, with its number.
  std::vector<std::pair<std::string, int64_t>> vocab;
  /// Two tokens, by their bytes, that become one; the first pair goes first.
  std::vector<std::pair<std::string, std::string>> merges;
  /// A word that is a token is that token, whatever the merges give.
  bool ignore_merges = false;
};

/// A vocabulary of byte strings and the order in which pairs of them are merged. Never
/// changes, so any thread may use it.
///
///     const Bpe bpe({.vocab = {{"a", 0}, {"b", 1}, {"ab", 2}}, .merges = {{"a",
///     "b"}}}); Bpe::Scratch scratch; std::vector<int64_t> tokens; bpe.encode("aab",
///     scratch, tokens);  // 0, 2
class Bpe {
 public:
  struct Scratch;

  /// InvalidArgument if a merge makes what is no token, or a token has no number or one
  /// that another has.
  explicit Bpe(const BpeOptions& options);

  /// Adds the tokens of a word. InvalidArgument if one of its bytes is no token. Takes
  /// time in proportion to n log n for n bytes, whatever they are.
  void encode(
      std::string_view word, Scratch& scratch, std::vector<int64_t>& tokens) const;

  std::optional<int64_t> find(std::string_view bytes) const;
  /// Whether the byte is a token for itself.
  bool has_byte(uint8_t byte) const { return bytes_[byte] >= 0; }

 private:
  struct Merge {
    int32_t rank;
    int32_t token;
  };
  const Merge* find_merge(int64_t left, int64_t right) const;
  void begin(std::string_view word, Scratch& scratch) const;
  void push(size_t left, Scratch& scratch) const;
  void merge_all(Scratch& scratch) const;

  TextMap<int32_t> tokens_;
  std::array<int32_t, 256> bytes_{};
  std::unordered_map<uint64_t, Merge> merges_;
  bool ignore_merges_ = false;
};

/// Memory that one thread lends to Bpe::encode() again and again.
struct Bpe::Scratch {
  /// A token of the word so far; they are a list, since merging takes some out.
  struct Symbol {
    int32_t token;
    /// Places of the neighbours; kNone at the ends.
    uint32_t before;
    uint32_t after;
  };
  /// A pair that can be merged; void once one of the two has changed.
  struct Candidate {
    int32_t rank;
    uint32_t left;
    int32_t token;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

}  // namespace trireme::data
