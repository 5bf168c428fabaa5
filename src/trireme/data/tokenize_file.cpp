#include <type_traits>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/data/mapped_file.h"
#include "trireme/data/token_file.h"
#include "trireme/data/tokenizer.h"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

template <class Stored>
constexpr TokenType type_of() {
  if (std::is_same_v<Stored, uint8_t>)
    return TokenType::U8;
  return std::is_same_v<Stored, uint16_t> ? TokenType::U16 : TokenType::U32;
}

/// One file, its tokens kept as `Stored`. `ending` comes after them.
template <class Stored>
TokenPiece encode_file(
    const fs::path& path, const Tokenizer& tokenizer, std::optional<int64_t> ending) {
  const MappedFile file(path);
  const auto tokens = std::make_shared<std::vector<Stored>>();
  tokenizer.encode_to(file.text(), [&](std::span<const int64_t> more) {
    for (const int64_t token : more)
      tokens->push_back(static_cast<Stored>(token));
  });
  if (ending)
    tokens->push_back(static_cast<Stored>(*ending));
  tokens->shrink_to_fit();
  return {
      .owner = tokens,
      .data = reinterpret_cast<const std::byte*>(tokens->data()),
      .type = type_of<Stored>(),
      .count = static_cast<int64_t>(tokens->size()),
      .name = path.string()};
}

TokenPiece encode_file(
    const fs::path& path, const Tokenizer& tokenizer, std::optional<int64_t> ending) {
  if (tokenizer.vocab_size() <= int64_t{1} << 8)
    return encode_file<uint8_t>(path, tokenizer, ending);
  if (tokenizer.vocab_size() <= int64_t{1} << 16)
    return encode_file<uint16_t>(path, tokenizer, ending);
  if (tokenizer.vocab_size() <= int64_t{1} << 32)
    return encode_file<uint32_t>(path, tokenizer, ending);
  throw NotSupported(text(
      "[data] expected a vocabulary of at most 2^32 tokens, got ",
      tokenizer.vocab_size(),
      "; take another tokenizer"));
}

TokenPiece map_file(const fs::path& path) {
  const MappedFile file(path);
  return {
      .owner = file.owner(),
      .data = file.bytes().data(),
      .type = TokenType::U8,
      .count = static_cast<int64_t>(file.bytes().size()),
      .name = path.string()};
}

}  // namespace

TokenFile tokenize_file(const fs::path& path, const Tokenizer& tokenizer) {
  return tokenize_file(std::span(&path, 1), tokenizer);
}

TokenFile tokenize_file(std::span<const fs::path> paths, const Tokenizer& tokenizer) {
  std::vector<TokenPiece> pieces;
  int64_t count = 0;
  for (const fs::path& path : paths) {
    const auto ending =
        pieces.size() + 1 < paths.size() ? tokenizer.end_of_text() : std::nullopt;
    pieces.push_back(
        tokenizer.kind() == "bytes" ? map_file(path)
                                    : encode_file(path, tokenizer, ending));
    count += pieces.back().count;
  }
  if (count == 0)
    throw InvalidArgument(text(
        "[data] expected text, got ",
        paths.empty() ? std::string("no file")
                      : text(in_quotes(paths.front().string()), ", which is empty"),
        "; say the paths of text files"));
  return TokenFile(std::move(pieces), text("text file, ", tokenizer.kind()));
}

}  // namespace trireme::data
