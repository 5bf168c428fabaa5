// Any text as a tokenizer.json: it is refused, or what it makes can encode and decode.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "trireme/core/error.h"
#include "trireme/data/tokenizer.h"
#include "trireme/data/unicode.h"

namespace {

using trireme::data::Tokenizer;

std::string without_spaces(const std::string& text) {
  std::string rest;
  for (const char letter : text)
    if (trireme::data::class_of(static_cast<unsigned char>(letter)) !=
        trireme::data::CharClass::Space)
      rest += letter;
  return rest;
}

/// Text comes back but for spaces, which added tokens may take with them and a
/// tokenizer may put before a text.
void use(const Tokenizer& tokenizer, const std::string& text, bool is_plain) {
  const std::vector<int64_t> tokens = tokenizer.encode(text);
  for (const int64_t token : tokens)
    if (token < 0 || token >= tokenizer.vocab_size())
      std::abort();
  const std::string back = tokenizer.decode(tokens);
  if (is_plain && without_spaces(back) != without_spaces(text))
    std::abort();
}

/// Other added tokens may be written in the letters of bytes, and are then decoded as
/// those bytes.
bool has_plain_letters(const std::string& text) {
  return text.find('\\') == std::string::npos &&
         std::all_of(text.begin(), text.end(), [](char letter) {
           return static_cast<unsigned char>(letter) < 0x80;
         });
}

// A whole file is long: a frame lets the fuzzer work on its parts.
std::string framed(const std::string& inside) {
  static const std::string bytes = trireme::data::byte_tokenizer()->to_json();
  return bytes.substr(0, bytes.rfind('}')) + inside + "}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const bool is_plain = has_plain_letters(text);
  for (const std::string& json : {text, framed(text)})
    try {
      const auto tokenizer = trireme::data::parse_tokenizer(json, "fuzz");
      for (const char* sample : {"ab a'sb  1ab", "a", " "})
        use(*tokenizer, sample, is_plain);
      use(*tokenizer, text, is_plain);
    } catch (const trireme::InvalidArgument&) {
    } catch (const trireme::NotSupported&) {
    }
  return 0;
}
