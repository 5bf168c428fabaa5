#include "trireme/data/tokenizer.h"

namespace trireme::data {

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int64_t> tokens;
  encode_to(text, [&](std::span<const int64_t> more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  });
  return tokens;
}

std::vector<int64_t> Tokenizer::encode_prompt(std::string_view text) const {
  return encode(text);
}

}  // namespace trireme::data
