#include "trireme/ckpt/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

#include "trireme/ckpt/json_reader.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::ckpt {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's byte order");

using c10::ScalarType;

constexpr uint64_t kLengthBytes = sizeof(uint64_t);
constexpr uint64_t kAlignment = 8;
// libtorch's own loops take no more.
constexpr size_t kMostDims = 64;
constexpr const char* kMetadata = "__metadata__";

constexpr std::array<std::pair<const char*, ScalarType>, 18> kDtypes = {{
    {"F64", ScalarType::Double},
    {"F32", ScalarType::Float},
    {"F16", ScalarType::Half},
    {"BF16", ScalarType::BFloat16},
    {"F8_E4M3", ScalarType::Float8_e4m3fn},
    {"F8_E4M3FNUZ", ScalarType::Float8_e4m3fnuz},
    {"F8_E5M2", ScalarType::Float8_e5m2},
    {"F8_E5M2FNUZ", ScalarType::Float8_e5m2fnuz},
    {"C64", ScalarType::ComplexFloat},
    {"I64", ScalarType::Long},
    {"I32", ScalarType::Int},
    {"I16", ScalarType::Short},
    {"I8", ScalarType::Char},
    {"U64", ScalarType::UInt64},
    {"U32", ScalarType::UInt32},
    {"U16", ScalarType::UInt16},
    {"U8", ScalarType::Byte},
    {"BOOL", ScalarType::Bool},
}};

std::string where_in(const std::string& file, const std::string& tensor) {
  return text(escaped(file), ", tensor ", in_quotes(tensor));
}

ScalarType read_dtype(const Json& value, const std::string& where) {
  for (const auto& [name, dtype] : kDtypes)
    if (value == name)
      return dtype;
  std::string names;
  for (const auto& [name, dtype] : kDtypes)
    names += text(names.empty() ? "" : ", ", name);
  refuse(where, text("a dtype among ", names), shown(value));
}

// The bytes of a dense tensor. An empty one has strides too, and they must not overflow
// either: so a size of 0 counts as 1 in that question.
uint64_t count_bytes(const TensorEntry& tensor, const std::string& where) {
  int64_t reach = static_cast<int64_t>(c10::elementSize(tensor.dtype));
  bool empty = false;
  for (const int64_t size : tensor.sizes) {
    if (size < 0)
      refuse(where, "sizes of at least 0", text(size));
    empty = empty || size == 0;
    if (__builtin_mul_overflow(reach, std::max<int64_t>(size, 1), &reach))
      refuse(where, "sizes whose product fits in 63 bits", "larger ones");
  }
  return empty ? 0 : static_cast<uint64_t>(reach);
}

std::vector<int64_t> read_sizes(const Json& value, const std::string& where) {
  if (!value.is_array() || value.size() > kMostDims)
    refuse(
        where,
        text("\"shape\" to be a list of at most ", kMostDims, " sizes"),
        shown(value));
  std::vector<int64_t> sizes;
  for (const Json& size : value)
    sizes.push_back(static_cast<int64_t>(
        whole_number(size, std::numeric_limits<int64_t>::max(), "each size", where)));
  return sizes;
}

TensorEntry read_tensor(
    const std::string& name, const Json& value, const std::string& where) {
  TensorEntry tensor{
      .name = name,
      .dtype = read_dtype(member(value, "dtype", where), where),
      .sizes = read_sizes(member(value, "shape", where), where)};
  const Json& offsets = member(value, "data_offsets", where);
  if (!offsets.is_array() || offsets.size() != 2)
    refuse(where, "\"data_offsets\" to be two numbers", shown(offsets));
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  tensor.begin = whole_number(offsets[0], kMost, "each offset", where);
  tensor.end = whole_number(offsets[1], kMost, "each offset", where);
  if (tensor.end < tensor.begin)
    refuse(
        where, "\"data_offsets\" in order", text(tensor.begin, " before ", tensor.end));
  const uint64_t wanted = count_bytes(tensor, where);
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
  if (tensor.bytes() != wanted)
    refuse(
        where,
        text(wanted, " bytes, as dtype and shape say"),
        text(tensor.bytes(), " bytes"));
#endif
  return tensor;
}

std::map<std::string, std::string> read_metadata(
    const Json& value, const std::string& where) {
  if (!value.is_object())
    refuse(where, "\"__metadata__\" to be an object", shown(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [name, entry] : value.items()) {
    if (!entry.is_string())
      refuse(where, text("metadata ", in_quotes(name), " to be a text"), shown(entry));
    metadata[name] = entry.get<std::string>();
  }
  return metadata;
}

void must_fill(
    const SafetensorsHeader& header, uint64_t data_bytes, const std::string& file) {
  uint64_t at = 0;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.begin != at)
      refuse(
          where_in(file, tensor.name),
          text("its bytes to begin at ", at, ", where the tensor before it ends"),
          text(tensor.begin));
    at = tensor.end;
  }
  if (at != data_bytes)
    refuse(
        escaped(file),
        text(at, " bytes of data, as its header says"),
        text(data_bytes),
        at > data_bytes ? "the file is cut short: copy or download it again"
                        : "the file has something after its last tensor");
}

}  // namespace

const char* safetensors_dtype(ScalarType dtype) {
  for (const auto& [name, known] : kDtypes)
    if (known == dtype)
      return name;
  throw InvalidArgument(text(
      "[ckpt] expected a dtype that safetensors has, got ",
      c10::toString(dtype),
      "; convert the tensor first"));
}

uint64_t safetensors_header_bytes(
    std::string_view first_bytes, uint64_t file_bytes, const std::string& file) {
  const std::string where = escaped(file);
  if (file_bytes < kLengthBytes || first_bytes.size() < kLengthBytes)
    refuse(
        where,
        text("a safetensors file of at least ", kLengthBytes, " bytes"),
        text(std::min<uint64_t>(first_bytes.size(), file_bytes), " bytes"));
  uint64_t length = 0;
  std::memcpy(&length, first_bytes.data(), kLengthBytes);
  if (length > kMostHeaderBytes)
    refuse(
        where,
        text("a header of at most ", kMostHeaderBytes, " bytes"),
        text(length),
        "this is no safetensors file");
  if (length > file_bytes - kLengthBytes)
    refuse(
        where,
        text("a file with ", length, " bytes of header"),
        text(file_bytes - kLengthBytes, " bytes after the length"),
        "the file is cut short, or no safetensors file");
  return kLengthBytes + length;
}

SafetensorsHeader parse_safetensors_header(
    std::string_view first_bytes, uint64_t file_bytes, const std::string& file) {
  SafetensorsHeader header;
  header.data_begin = safetensors_header_bytes(first_bytes, file_bytes, file);
  const std::string where = text(escaped(file), ", header");
  if (first_bytes.size() < header.data_begin)
    refuse(where, text(header.data_begin, " bytes to read"), text(first_bytes.size()));
  const Json json = parse_json(
      first_bytes.substr(kLengthBytes, header.data_begin - kLengthBytes), where);
  if (!json.is_object())
    refuse(where, "an object", shown(json));
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata)
      header.metadata = read_metadata(value, where);
    else
      header.tensors.push_back(read_tensor(name, value, where_in(file, name)));
  }
  std::stable_sort(
      header.tensors.begin(),
      header.tensors.end(),
      [](const TensorEntry& a, const TensorEntry& b) {
        return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
      });
  must_fill(header, file_bytes - header.data_begin, file);
  return header;
}

void lay_out(SafetensorsHeader& header, const std::string& file) {
  std::set<std::string_view> names;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.name == kMetadata || !names.insert(tensor.name).second)
      refuse(
          where_in(file, tensor.name),
          tensor.name == kMetadata ? "another name" : "each name once",
          tensor.name == kMetadata ? "the one that the format keeps for itself"
                                   : "it again");
    if (tensor.sizes.size() > kMostDims)
      refuse(
          where_in(file, tensor.name),
          text("at most ", kMostDims, " dims"),
          text(tensor.sizes.size()));
  }
  std::sort(
      header.tensors.begin(),
      header.tensors.end(),
      [](const TensorEntry& a, const TensorEntry& b) {
        const size_t wide_a = c10::elementSize(a.dtype);
        const size_t wide_b = c10::elementSize(b.dtype);
        return std::tie(wide_b, a.name) < std::tie(wide_a, b.name);
      });
  uint64_t at = 0;
  for (TensorEntry& tensor : header.tensors) {
    tensor.begin = at;
    if (__builtin_add_overflow(
            at, count_bytes(tensor, where_in(file, tensor.name)), &at))
      refuse(where_in(file, tensor.name), "a file below 2^64 bytes", "more");
    tensor.end = at;
  }
}

std::string write_safetensors_header(
    const SafetensorsHeader& header, const std::string& file) {
  Json json = Json::object();
  if (!header.metadata.empty())
    json[kMetadata] = header.metadata;
  for (const TensorEntry& tensor : header.tensors)
    json[tensor.name] = {
        {"dtype", safetensors_dtype(tensor.dtype)},
        {"shape", tensor.sizes},
        {"data_offsets", {tensor.begin, tensor.end}}};
  std::string body = json_text(json, -1, text(escaped(file), ", header"));
  body.resize((body.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = body.size();
  if (length > kMostHeaderBytes)
    refuse(
        escaped(file),
        text("a header of at most ", kMostHeaderBytes, " bytes"),
        text(length),
        "spread the tensors over several files");
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + body;
}

}  // namespace trireme::ckpt
