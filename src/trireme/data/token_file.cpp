#include "trireme/data/token_file.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/number_text.h"

namespace trireme::data {
namespace {

template <class Stored>
void widen(const TokenPiece& piece, int64_t begin, std::span<int64_t> out) {
  const std::byte* from = piece.data + static_cast<size_t>(begin) * sizeof(Stored);
  for (size_t i = 0; i < out.size(); ++i) {
    Stored token{};
    std::memcpy(&token, from + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<int64_t>(token);
  }
}

void copy_tokens(const TokenPiece& piece, int64_t begin, std::span<int64_t> out) {
  switch (piece.type) {
    case TokenType::U8:
      return widen<uint8_t>(piece, begin, out);
    case TokenType::I8:
      return widen<int8_t>(piece, begin, out);
    case TokenType::U16:
      return widen<uint16_t>(piece, begin, out);
    case TokenType::I16:
      return widen<int16_t>(piece, begin, out);
    case TokenType::U32:
      return widen<uint32_t>(piece, begin, out);
    case TokenType::I32:
      return widen<int32_t>(piece, begin, out);
    case TokenType::I64:
      return widen<int64_t>(piece, begin, out);
  }
}

void check_tokens(
    const TokenPiece& piece,
    int64_t begin,
    std::span<const int64_t> tokens,
    int64_t vocab_size) {
  // As unsigned numbers the negative ones are above any vocabulary.
  const uint64_t limit = vocab_size > 0
                             ? static_cast<uint64_t>(vocab_size)
                             : uint64_t{std::numeric_limits<int64_t>::max()} + 1;
  uint64_t largest = 0;
  for (const int64_t token : tokens)
    largest = std::max(largest, static_cast<uint64_t>(token));
  if (largest < limit)
    return;
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](int64_t token) {
    return static_cast<uint64_t>(token) >= limit;
  });
  const std::string wanted = vocab_size > 0 ? text("from 0 to ", vocab_size - 1)
                                            : std::string("of at least 0");
  throw InvalidArgument(text(
      "[data] ",
      in_quotes(piece.name),
      ": expected tokens ",
      wanted,
      ", got ",
      *bad,
      " at position ",
      begin + (bad - tokens.begin()),
      "; the file is of another tokenizer or format, or the vocabulary is too small"));
}

std::string description(
    const std::vector<TokenPiece>& pieces, const std::string& kind, int64_t count) {
  std::string types;
  for (const TokenPiece& piece : pieces)
    if (types.find(to_string(piece.type)) == std::string::npos)
      types += text(types.empty() ? "" : " and ", to_string(piece.type));
  return text(
      pieces.size() == 1 ? "" : text(pieces.size(), " times "),
      kind,
      ", ",
      types,
      ", ",
      with_thousands(count),
      " tokens");
}

}  // namespace

struct TokenFile::State {
  std::vector<TokenPiece> pieces;
  /// Where each piece begins in the row; and the end of the last.
  std::vector<int64_t> begins;
  std::string description;
};

TokenFile::TokenFile(std::vector<TokenPiece> pieces, const std::string& kind) {
  auto state = std::make_shared<State>();
  int64_t count = 0;
  for (const TokenPiece& piece : pieces) {
    state->begins.push_back(count);
    count += piece.count;
  }
  state->begins.push_back(count);
  state->description = description(pieces, kind, count);
  state->pieces = std::move(pieces);
  state_ = std::move(state);
}

namespace {

std::vector<TokenPiece> in_memory(std::vector<int64_t> tokens) {
  const auto owner = std::make_shared<const std::vector<int64_t>>(std::move(tokens));
  return {
      {.owner = owner,
       .data = reinterpret_cast<const std::byte*>(owner->data()),
       .type = TokenType::I64,
       .count = static_cast<int64_t>(owner->size()),
       .name = "tokens in memory"}};
}

}  // namespace

TokenFile::TokenFile(std::vector<int64_t> tokens)
    : TokenFile(in_memory(std::move(tokens)), "tokens in memory") {}

int64_t TokenFile::size() const {
  return state_->begins.back();
}

const std::string& TokenFile::describe() const {
  return state_->description;
}

void TokenFile::read(int64_t begin, std::span<int64_t> out, int64_t vocab_size) const {
  const std::vector<int64_t>& begins = state_->begins;
  if (begin < 0 || begin > size() || out.size() > static_cast<size_t>(size() - begin))
    throw InvalidArgument(text(
        "[data] expected a place within ",
        size(),
        " tokens, got ",
        out.size(),
        " tokens from position ",
        begin,
        "; count the windows with count_windows()"));
  while (!out.empty()) {
    const auto behind = std::upper_bound(begins.begin(), begins.end(), begin);
    const auto index = static_cast<size_t>(behind - begins.begin()) - 1;
    const size_t count = std::min(out.size(), static_cast<size_t>(*behind - begin));
    const TokenPiece& piece = state_->pieces[index];
    const int64_t inside = begin - begins[index];
    copy_tokens(piece, inside, out.first(count));
    check_tokens(piece, inside, out.first(count), vocab_size);
    begin += static_cast<int64_t>(count);
    out = out.subspan(count);
  }
}

}  // namespace trireme::data
