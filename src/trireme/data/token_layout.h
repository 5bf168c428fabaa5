// What the headers of token files say: pure functions of bytes, which nothing trusts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme::data {

/// How a token is stored. All formats are little-endian.
enum class TokenType : uint8_t { U8, I8, U16, I16, U32, I32, I64 };

size_t bytes_of(TokenType type);
/// As numpy names it: "uint16".
std::string_view to_string(TokenType type);

/// Where the tokens of a file are: `count` of them from byte `offset` on, all inside
/// the file.
struct TokenLayout {
  TokenType type = TokenType::U16;
  size_t offset = 0;
  int64_t count = 0;
};

/// A headerless file of uint16, as nanoGPT writes it: an even number of bytes, not 0.
/// `file` is for messages only, here and below.
TokenLayout parse_nano_gpt(uint64_t file_bytes, const std::string& file);

/// What a file is by its first bytes, if they are those of something that is no token
/// file ("a NumPy file"); else nothing. A headerless file may begin with anything, but
/// hardly with these.
std::string_view foreign_kind(std::span<const std::byte> bytes);

/// Whether the bytes begin with one of the two magic numbers of llm.c's token files.
bool is_llm_c(std::span<const std::byte> bytes);

/// A whole file of llm.c: 256 int32 (magic, version, number of tokens, zeros), then
/// uint16 (magic 20240520, version 1) or uint32 (magic 20240801, version 7).
TokenLayout parse_llm_c(std::span<const std::byte> bytes, const std::string& file);

}  // namespace trireme::data
