#include "trireme/data/bpe.h"

#include <algorithm>
#include <limits>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::data {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr int32_t kGone = -1;

// Larger vocabularies than any that there is; tables by number stay small.
constexpr int64_t kMostTokens = 10'000'000;

constexpr const char* kCorrect = "correct the tokenizer's file";

uint64_t key_of(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

template <class... Parts>
[[noreturn]] void refuse_bpe(const char* remedy, const Parts&... parts) {
  throw InvalidArgument(text("[data] expected ", parts..., "; ", remedy));
}

/// The heap gives the lowest rank first, and of that the leftmost pair.
bool comes_later(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
}

}  // namespace

Bpe::Bpe(const BpeOptions& options) : ignore_merges_(options.ignore_merges) {
  std::unordered_map<int64_t, std::string_view> names;
  for (const auto& [bytes, token] : options.vocab) {
    if (token < 0 || token >= kMostTokens)
      refuse_bpe(
          kCorrect,
          "tokens numbered from 0 to ",
          kMostTokens - 1,
          ", got ",
          token,
          " for ",
          in_quotes(bytes));
    if (const auto [other, is_new] = names.emplace(token, bytes); !is_new)
      refuse_bpe(
          kCorrect,
          "a number for each token, got ",
          token,
          " for both ",
          in_quotes(other->second),
          " and ",
          in_quotes(bytes));
    tokens_.emplace(bytes, static_cast<int32_t>(token));
  }
  for (size_t byte = 0; byte < bytes_.size(); ++byte) {
    const char letter = static_cast<char>(byte);
    bytes_[byte] = static_cast<int32_t>(find({&letter, 1}).value_or(kGone));
  }
  int32_t rank = 0;
  for (const auto& [left, right] : options.merges) {
    const auto first = find(left);
    const auto second = find(right);
    const auto whole = find(left + right);
    if (!first || !second || !whole)
      refuse_bpe(
          kCorrect,
          "merges of tokens into tokens, got merge ",
          rank,
          ", ",
          in_quotes(left),
          " and ",
          in_quotes(right),
          ", which or whose sum the vocabulary does not have");
    merges_[key_of(*first, *second)] = {rank++, static_cast<int32_t>(*whole)};
  }
}

std::optional<int64_t> Bpe::find(std::string_view bytes) const {
  const auto found = tokens_.find(bytes);
  return found == tokens_.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

const Bpe::Merge* Bpe::find_merge(int64_t left, int64_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::begin(std::string_view word, Scratch& scratch) const {
  if (word.size() >= kNone)
    refuse_bpe(
        "cut the text into parts", "words below 4 GiB, got ", word.size(), " bytes");
  scratch.symbols.clear();
  scratch.heap.clear();
  for (size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<uint8_t>(word[i]);
    if (bytes_[byte] < 0)
      refuse_bpe(
          "train the tokenizer with all 256 bytes as its alphabet",
          "text of bytes that the vocabulary has, got byte ",
          int{byte},
          " in ",
          in_quotes(word));
    scratch.symbols.push_back(
        {bytes_[byte],
         i == 0 ? kNone : static_cast<uint32_t>(i - 1),
         i + 1 == word.size() ? kNone : static_cast<uint32_t>(i + 1)});
  }
  for (size_t i = 0; i + 1 < word.size(); ++i)
    push(i, scratch);
}

void Bpe::push(size_t left, Scratch& scratch) const {
  const Scratch::Symbol& symbol = scratch.symbols[left];
  const Merge* merge = find_merge(symbol.token, scratch.symbols[symbol.after].token);
  if (merge == nullptr)
    return;
  scratch.heap.push_back({merge->rank, static_cast<uint32_t>(left), merge->token});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), comes_later);
}

void Bpe::merge_all(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), comes_later);
    const Scratch::Candidate top = scratch.heap.back();
    scratch.heap.pop_back();
    Scratch::Symbol& left = symbols[top.left];
    if (left.token == kGone || left.after == kNone)
      continue;
    Scratch::Symbol& right = symbols[left.after];
    const Merge* merge = find_merge(left.token, right.token);
    if (merge == nullptr || merge->token != top.token)
      continue;  // one of the two was merged since
    left.token = top.token;
    left.after = right.after;
    right.token = kGone;
    if (left.after != kNone) {
      symbols[left.after].before = top.left;
      push(top.left, scratch);
    }
    if (left.before != kNone)
      push(left.before, scratch);
  }
}

void Bpe::encode(
    std::string_view word, Scratch& scratch, std::vector<int64_t>& tokens) const {
  if (ignore_merges_)
    if (const auto whole = find(word)) {
      tokens.push_back(*whole);
      return;
    }
  begin(word, scratch);
  merge_all(scratch);
  for (const Scratch::Symbol& symbol : scratch.symbols)
    if (symbol.token != kGone)
      tokens.push_back(symbol.token);
}

}  // namespace trireme::data
