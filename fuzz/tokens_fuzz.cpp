// Any bytes as the header or index of a token file: they are refused, or every token
// that they promise lies inside the file.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "trireme/core/error.h"
#include "trireme/data/megatron_index.h"
#include "trireme/data/token_layout.h"

namespace {

using namespace trireme::data;

void must(bool holds) {
  if (!holds)
    std::abort();
}

void must_fit(const TokenLayout& layout, uint64_t file_bytes) {
  must(layout.count >= 0 && layout.offset <= file_bytes);
  must(
      static_cast<uint64_t>(layout.count) <=
      (file_bytes - layout.offset) / bytes_of(layout.type));
}

template <class Parse>
void try_it(Parse parse) {
  try {
    parse();
  } catch (const trireme::InvalidArgument&) {
  }
}

/// An index whose magic number, version and counts are right already: the fuzzer works
/// on the rest.
std::string framed(std::string_view inside) {
  std::string index(kMegatronMagic);
  const uint64_t version = 1;
  const uint64_t sequences = inside.size() / 20;
  const uint64_t documents = sequences;
  const char type = 8;
  index.append(reinterpret_cast<const char*>(&version), sizeof version);
  index += type;
  index.append(reinterpret_cast<const char*>(&sequences), sizeof sequences);
  index.append(reinterpret_cast<const char*>(&documents), sizeof documents);
  return index.append(inside.substr(0, sequences * 20));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The first byte is the size of the .bin file, in tokens of two bytes.
  const uint64_t bin_bytes = size == 0 ? 0 : data[0] * 2U;
  const std::string_view rest(
      reinterpret_cast<const char*>(data) + (size == 0 ? 0 : 1),
      size == 0 ? 0 : size - 1);
  const auto bytes = std::as_bytes(std::span(rest.data(), rest.size()));
  foreign_kind(bytes);
  is_llm_c(bytes);
  try_it([&] { must_fit(parse_nano_gpt(bytes.size(), "fuzz"), bytes.size()); });
  try_it([&] { must_fit(parse_llm_c(bytes, "fuzz"), bytes.size()); });
  for (const std::string& index : {std::string(rest), framed(rest)})
    try_it([&] {
      const MegatronIndex found =
          parse_megatron(std::as_bytes(std::span(index)), bin_bytes, "fuzz");
      must_fit(found.tokens, bin_bytes);
      must(found.documents <= found.sequences || found.sequences == 0);
    });
  return 0;
}
