#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/number_text.h"
#include "trireme/data/mapped_file.h"
#include "trireme/data/megatron_index.h"
#include "trireme/data/token_file.h"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

/// The pieces of one file, and how describe() names its kind.
struct Opened {
  std::vector<TokenPiece> pieces;
  std::string kind;
};

/// The path with another ending; a prefix has none to take off.
fs::path with_ending(const fs::path& path, const char* ending) {
  fs::path other = path;
  if (path.extension() == ".bin" || path.extension() == ".idx")
    other.replace_extension();
  other += ending;
  return other;
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool has_index(const fs::path& path) {
  return is_file(with_ending(path, ".bin")) && is_file(with_ending(path, ".idx"));
}

TokenPiece piece_of(
    const MappedFile& file, const TokenLayout& layout, const fs::path& path) {
  return {
      .owner = file.owner(),
      .data = file.bytes().data() + layout.offset,
      .type = layout.type,
      .count = layout.count,
      .name = path.string()};
}

Opened open_nano_gpt(const MappedFile& file, const fs::path& path, bool guessed) {
  const std::string_view foreign = guessed ? foreign_kind(file.bytes()) : "";
  if (!foreign.empty())
    throw InvalidArgument(text(
        "[data] ",
        in_quotes(path.string()),
        ": expected tokens, got ",
        foreign,
        "; if it is tokens all the same, say the format"));
  const TokenLayout layout = parse_nano_gpt(file.bytes().size(), path.string());
  return {{piece_of(file, layout, path)}, "nanoGPT file"};
}

Opened open_megatron(const fs::path& path) {
  const fs::path index_path = with_ending(path, ".idx");
  const fs::path bin_path = with_ending(path, ".bin");
  const MappedFile index(index_path);
  const MappedFile bin(bin_path);
  const MegatronIndex found =
      parse_megatron(index.bytes(), bin.bytes().size(), index_path.string());
  return {
      {piece_of(bin, found.tokens, bin_path)},
      text(
          "Megatron file of ",
          with_thousands(found.sequences),
          " sequences in ",
          with_thousands(found.documents),
          " documents")};
}

Opened open_one(const fs::path& path, const TokenFileOptions& options) {
  const bool guessed = options.format == TokenFormat::Auto;
  const TokenFormat format = guessed ? guess_format(path) : options.format;
  if (format == TokenFormat::Text)
    throw InvalidArgument(text(
        "[data] expected a file of tokens (.bin), got ",
        in_quotes(path.string()),
        ", which is text; read it with a tokenizer: tokenize_file()"));
  if (format == TokenFormat::Megatron)
    return open_megatron(path);
  const MappedFile file(path);
  if (format == TokenFormat::NanoGpt)
    return open_nano_gpt(file, path, guessed);
  const TokenLayout layout = parse_llm_c(file.bytes(), path.string());
  return {{piece_of(file, layout, path)}, "llm.c file"};
}

}  // namespace

TokenFormat guess_format(const fs::path& path) {
  if (has_index(path))
    return TokenFormat::Megatron;
  if (path.extension() != ".bin")
    return TokenFormat::Text;
  return is_llm_c(MappedFile(path).bytes()) ? TokenFormat::LlmC : TokenFormat::NanoGpt;
}

void check_text(const fs::path& path) {
  constexpr size_t kLookedAt = 64 << 10;
  const MappedFile file(path);
  std::string_view found = foreign_kind(file.bytes());
  if (found.empty() && file.text().substr(0, kLookedAt).find('\0') != std::string::npos)
    found = "binary data (a byte 0)";
  if (!found.empty())
    throw InvalidArgument(text(
        "[data] ",
        in_quotes(path.string()),
        ": expected text, got ",
        found,
        "; if it is text all the same, say the format"));
}

TokenFile open_tokens(const fs::path& path, const TokenFileOptions& options) {
  Opened opened = open_one(path, options);
  return TokenFile(std::move(opened.pieces), opened.kind);
}

TokenFile open_tokens(
    std::span<const fs::path> paths, const TokenFileOptions& options) {
  if (paths.empty())
    throw InvalidArgument(
        "[data] expected at least one file of tokens, got none; say their paths");
  Opened all;
  for (const fs::path& path : paths) {
    Opened one = open_one(path, options);
    if (!all.kind.empty() && one.kind != all.kind)
      one.kind = "token file";
    all.kind = std::move(one.kind);
    all.pieces.push_back(std::move(one.pieces.front()));
  }
  return TokenFile(std::move(all.pieces), all.kind);
}

}  // namespace trireme::data
