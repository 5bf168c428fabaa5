// The header of a safetensors file: eight bytes of length, JSON, and where each tensor
// lies in the bytes after it. No file is touched here.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/ScalarType.h>

namespace trireme::ckpt {

/// One tensor of a file. Its bytes lie at [begin, end), counted from data_begin.
struct TensorEntry {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes;
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
  bool operator==(const TensorEntry&) const = default;
};

/// What a file says of itself, with the tensors in the order of their bytes.
///
///     file: | u64 length | JSON, blanks up to a multiple of 8 | data |
///                                                             ^ data_begin
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
  uint64_t data_begin = 0;
};

/// The longest JSON that the format allows.
inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

/// "F32", "BF16", …; InvalidArgument for a dtype that the format does not have.
const char* safetensors_dtype(c10::ScalarType dtype);

/// Reads a header out of the first bytes of a file: the length, the JSON, and whatever
/// follows. InvalidArgument, with the file and the tensor, for anything that does not
/// hold: the tensors must fill the file of `file_bytes` bytes exactly, without gaps or
/// overlaps, each as long as its sizes say, and no name may come twice. What it returns
/// can be trusted with pointers.
SafetensorsHeader parse_safetensors_header(
    std::string_view first_bytes, uint64_t file_bytes, const std::string& file);

/// How long the length and the JSON are together, from the first eight bytes of a file;
/// InvalidArgument if that does not fit in `file_bytes`.
uint64_t safetensors_header_bytes(
    std::string_view first_bytes, uint64_t file_bytes, const std::string& file);

/// Gives every tensor its place, from dtype and sizes: large elements first, then by
/// name, so that each is aligned to its elements. Refuses repeated and reserved names.
void lay_out(SafetensorsHeader& header, const std::string& file);

/// The bytes of a header: length, JSON and blanks up to a multiple of 8.
std::string write_safetensors_header(
    const SafetensorsHeader& header, const std::string& file);

}  // namespace trireme::ckpt
