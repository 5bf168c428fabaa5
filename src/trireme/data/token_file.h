// Token files: one handle for whatever the format on disk is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/data/token_layout.h"

namespace trireme::data {

class Tokenizer;

enum class TokenFormat {
  /// By what is found: see open_tokens().
  Auto,
  /// Bytes that a tokenizer has to read: see tokenize_file().
  Text,
  /// uint16 without a header.
  NanoGpt,
  /// A header of 256 int32, then uint16 or uint32.
  LlmC,
  /// A .bin file with its index, .idx, beside it.
  Megatron,
};

struct TokenFileOptions {
  TokenFormat format = TokenFormat::Auto;
};

/// Tokens one after the other in memory, be it mapped or not.
struct TokenPiece {
  /// Keeps the memory while it lives; may be null if that lives anyway.
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  TokenType type = TokenType::I64;
  int64_t count = 0;
  /// For messages: the path, as a rule.
  std::string name;
};

/// A long row of tokens. Files are mapped, so opening one costs nothing and it may be
/// larger than the memory. Copies are cheap and share all; any thread may read.
///
///     const TokenFile file = open_tokens("train.bin");
///     std::vector<int64_t> tokens(1024);
///     file.read(0, tokens, /*vocab_size=*/50257);
class TokenFile {
 public:
  /// These tokens, for tests and small things.
  explicit TokenFile(std::vector<int64_t> tokens);
  /// Pieces, read as one row. `kind` is what describe() begins with.
  TokenFile(std::vector<TokenPiece> pieces, const std::string& kind);

  /// How many tokens there are.
  int64_t size() const;
  /// Reads tokens from position `begin` on. InvalidArgument with file, position and
  /// token if one is negative, or not below `vocab_size` (0: any is fine).
  void read(int64_t begin, std::span<int64_t> out, int64_t vocab_size = 0) const;
  /// As "llm.c file, uint16, 1,000,000 tokens".
  const std::string& describe() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// What a path would be opened as: Megatron if an .idx lies beside it, llm.c if its
/// magic number is there, nanoGPT if it ends in .bin, else Text.
TokenFormat guess_format(const std::filesystem::path& path);

/// InvalidArgument if a file that is to be read as text is something else by its first
/// bytes: a known format, or bytes that no text has.
void check_text(const std::filesystem::path& path);

/// Opens a token file; Auto is what guess_format() says. Megatron's may be given as
/// prefix, .bin or .idx. InvalidArgument with what was found if the file is cut off,
/// damaged or foreign, and for Text, which needs a tokenizer.
TokenFile open_tokens(
    const std::filesystem::path& path, const TokenFileOptions& options = {});
/// Several files, one after the other as one row (llm.c writes shards).
TokenFile open_tokens(
    std::span<const std::filesystem::path> paths, const TokenFileOptions& options = {});

/// The tokens of a text file. They stay in memory, in the narrowest type that holds the
/// vocabulary; with the byte tokenizer they are the mapped file itself.
TokenFile tokenize_file(const std::filesystem::path& path, const Tokenizer& tokenizer);
/// Several, one after the other, with the tokenizer's end of text (if it has one)
/// between them.
TokenFile tokenize_file(
    std::span<const std::filesystem::path> paths, const Tokenizer& tokenizer);

}  // namespace trireme::data
