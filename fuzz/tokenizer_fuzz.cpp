// Any text as a tokenizer.json: it is refused, or what it makes can encode and decode.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

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
  return R"({"decoder":{"type":"ByteLevel"},"model":{"vocab":{"a":0,"b":1,"ab":2,"1":3,)"
         R"("'":4,"s":5,"<":6,">":7,"e":8,"Ġ":9},"merges":["a b"]},)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false})" +
         inside + "}";
}

/// Chance seldom leaves JSON whole: here any bytes are an added token.
std::string added_token(const std::string& bytes) {
  const auto byte = [&](size_t i) { return i < bytes.size() ? bytes[i] & 0xff : 0; };
  const nlohmann::json token{
      {"id", byte(0)},
      {"content", bytes.substr(std::min<size_t>(bytes.size(), 2))},
      {"lstrip", (byte(1) & 1) != 0},
      {"rstrip", (byte(1) & 2) != 0},
      {"normalized", (byte(1) & 4) != 0}};
  using Handler = nlohmann::json::error_handler_t;
  return R"(,"added_tokens":[)" + token.dump(-1, ' ', false, Handler::replace) + "]";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string content = text.substr(std::min<size_t>(size, 2));
  const bool is_plain = has_plain_letters(text);
  const bool is_plain_token = has_plain_letters(content);
  const auto try_it = [&](const std::string& json, bool comes_back) {
    try {
      const auto tokenizer = trireme::data::parse_tokenizer(json, "fuzz");
      for (const char* sample : {" ab<e> a'sb  1ab", "a", " "})
        use(*tokenizer, sample, comes_back);
      use(*tokenizer, " a " + content + " b", comes_back);
    } catch (const trireme::InvalidArgument&) {
    } catch (const trireme::NotSupported&) {
    }
  };
  try_it(text, is_plain);
  try_it(framed(text), is_plain);
  try_it(framed(added_token(text)), is_plain_token);
  return 0;
}
