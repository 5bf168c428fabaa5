// Any bytes as the head of a safetensors file: they are refused, or every tensor lies
// inside the file, as long as its sizes say, and the header can be written again.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "trireme/ckpt/safetensors_header.h"
#include "trireme/core/error.h"

namespace {

using namespace trireme::ckpt;

constexpr uint64_t kDataBytes = 64;

void must(bool holds) {
  if (!holds)
    std::abort();
}

// Most inputs are no header at all: a frame lets the fuzzer work on the JSON.
std::string framed(const std::string& json) {
  const uint64_t length = json.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + json;
}

void must_fill(const SafetensorsHeader& header, uint64_t file_bytes) {
  uint64_t at = 0;
  for (const TensorEntry& tensor : header.tensors) {
    must(tensor.begin == at && tensor.end >= at);
    uint64_t bytes = c10::elementSize(tensor.dtype);
    for (const int64_t size : tensor.sizes) {
      must(size >= 0);
      bytes *= static_cast<uint64_t>(size);
    }
    must(bytes == tensor.bytes());
    at = tensor.end;
  }
  must(header.data_begin <= file_bytes && at == file_bytes - header.data_begin);
}

void parse(const std::string& bytes, uint64_t file_bytes) {
  SafetensorsHeader header = parse_safetensors_header(bytes, file_bytes, "fuzz");
  must_fill(header, file_bytes);
  const std::string written = write_safetensors_header(header, "fuzz");
  const uint64_t data = file_bytes - header.data_begin;
  const auto again = parse_safetensors_header(written, written.size() + data, "fuzz");
  must(again.metadata == header.metadata);
  must(again.tensors.size() == header.tensors.size());
  lay_out(header, "fuzz");
  must_fill(header, header.data_begin + data);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string frame = framed(input);
  for (const auto& [bytes, more] :
       {std::pair{input, uint64_t{0}}, std::pair{frame, kDataBytes}}) {
    try {
      parse(bytes, bytes.size() + more);
    } catch (const trireme::InvalidArgument&) {
    }
  }
  return 0;
}
