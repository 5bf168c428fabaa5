#include "trireme/data/token_layout.h"

#include <array>

#include "trireme/data/file_bytes.h"
#include "trireme/data/megatron_index.h"

namespace trireme::data {
namespace {

using namespace std::string_view_literals;

constexpr size_t kLlmCHeader = 256 * sizeof(int32_t);

// The kinds of llm.c's token files: each magic number has one version and one type.
struct LlmCKind {
  int32_t magic;
  int32_t version;
  TokenType type;
};
constexpr std::array kLlmCKinds{
    LlmCKind{20240520, 1, TokenType::U16}, LlmCKind{20240801, 7, TokenType::U32}};

const LlmCKind* find_llm_c(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(int32_t))
    return nullptr;
  for (const LlmCKind& kind : kLlmCKinds)
    if (number_at<int32_t>(bytes, 0) == kind.magic)
      return &kind;
  return nullptr;
}

}  // namespace

size_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::U8:
    case TokenType::I8:
      return 1;
    case TokenType::U16:
    case TokenType::I16:
      return 2;
    case TokenType::U32:
    case TokenType::I32:
      return 4;
    case TokenType::I64:
      return 8;
  }
  return 0;
}

std::string_view to_string(TokenType type) {
  constexpr std::array kNames{
      "uint8"sv, "int8"sv, "uint16"sv, "int16"sv, "uint32"sv, "int32"sv, "int64"sv};
  return kNames[static_cast<size_t>(type)];
}

std::string_view foreign_kind(std::span<const std::byte> bytes) {
  struct Kind {
    std::string_view magic;
    std::string_view name;
  };
  constexpr std::array kKinds{
      Kind{"\x93NUMPY"sv, "a NumPy file"},
      Kind{"PK\x03\x04"sv, "a zip archive, or a file of torch.save"},
      Kind{"\x1f\x8b\x08"sv, "a gzip file"},
      Kind{"\x28\xb5\x2f\xfd"sv, "a zstd file"},
      Kind{"BZh"sv, "a bzip2 file"},
      Kind{
          "\xfd"
          "7zXZ"sv,
          "an xz file"},
      Kind{"%PDF-"sv, "a PDF file"},
      Kind{"\x80\x02\x8a\x0a"sv, "a file of an old torch.save"},
      Kind{"PAR1"sv, "a Parquet file"},
      Kind{"ARROW1"sv, "an Arrow file"},
      Kind{"\x89HDF"sv, "an HDF5 file"},
      Kind{
          "\x7f"
          "ELF"sv,
          "a program"},
      Kind{kMegatronMagic, "an index of Megatron; say its .bin file"},
      Kind{"\xc6\xd7\x34\x01"sv, "a model of llm.c"},              // 20240326
      Kind{"\x8a\xd8\x34\x01"sv, "an evaluation file of llm.c"}};  // 20240522
  for (const Kind& kind : kKinds)
    if (begins_with(bytes, kind.magic))
      return kind.name;
  // Eight bytes of length, then JSON.
  if (bytes.size() > 10 && begins_with(bytes.subspan(8), "{\""))
    return "a safetensors file";
  return {};
}

TokenLayout parse_nano_gpt(uint64_t file_bytes, const std::string& file) {
  if (file_bytes == 0)
    refuse_file(file, "tokens of 2 bytes, got an empty file");
  if (file_bytes % 2 != 0)
    refuse_file(file, "tokens of 2 bytes, got an odd size of ", file_bytes, " bytes");
  return {.type = TokenType::U16, .count = static_cast<int64_t>(file_bytes / 2)};
}

bool is_llm_c(std::span<const std::byte> bytes) {
  return find_llm_c(bytes) != nullptr;
}

TokenLayout parse_llm_c(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLlmCHeader)
    refuse_file(file, kLlmCHeader, " bytes of header, got ", bytes.size());
  const LlmCKind* kind = find_llm_c(bytes);
  if (kind == nullptr)
    refuse_file(
        file,
        "llm.c's magic number 20240520 or 20240801, got ",
        number_at<int32_t>(bytes, 0));
  if (const auto version = number_at<int32_t>(bytes, 4); version != kind->version)
    refuse_file(
        file,
        "version ",
        kind->version,
        " with the magic number ",
        kind->magic,
        ", got ",
        version);
  const auto count = number_at<int32_t>(bytes, 8);
  const uint64_t body = bytes.size() - kLlmCHeader;
  if (count < 1 || static_cast<uint64_t>(count) * bytes_of(kind->type) != body)
    refuse_file(
        file,
        "as many tokens of ",
        bytes_of(kind->type),
        " bytes as the header says, ",
        count,
        ", got ",
        body,
        " bytes after it");
  return {.type = kind->type, .offset = kLlmCHeader, .count = count};
}

}  // namespace trireme::data
