#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/data/byte_alphabet.h"
#include "trireme/data/tokenizer.h"

namespace trireme::data {
namespace {

constexpr int64_t kTokens = 256;

class ByteTokenizer : public Tokenizer {
 public:
  void encode_to(std::string_view text, const TokenSink& sink) const override {
    std::array<int64_t, 4096> tokens{};
    while (!text.empty()) {
      const size_t count = std::min(text.size(), tokens.size());
      for (size_t i = 0; i < count; ++i)
        tokens[i] = static_cast<unsigned char>(text[i]);
      sink(std::span(tokens).first(count));
      text.remove_prefix(count);
    }
  }

  std::string decode(std::span<const int64_t> tokens) const override {
    std::string bytes;
    bytes.reserve(tokens.size());
    for (const int64_t token : tokens) {
      if (token < 0 || token >= kTokens)
        throw InvalidArgument(text(
            "[data] expected bytes, tokens from 0 to 255, got ",
            token,
            "; decode with the tokenizer of the model"));
      bytes += static_cast<char>(token);
    }
    return bytes;
  }

  int64_t vocab_size() const override { return kTokens; }
  std::string_view kind() const override { return "bytes"; }
  std::string to_json() const override;
};

// Byte-level BPE without a merge is the same, but for bytes that are no UTF-8.
std::string ByteTokenizer::to_json() const {
  using Json = nlohmann::ordered_json;
  Json vocab = Json::object();
  for (int64_t token = 0; token < kTokens; ++token) {
    const char byte = static_cast<char>(token);
    vocab[letters_of({&byte, 1})] = token;
  }
  const Json byte_level{
      {"type", "ByteLevel"},
      {"add_prefix_space", false},
      {"trim_offsets", true},
      {"use_regex", false}};
  const Json model{
      {"type", "BPE"},
      {"dropout", nullptr},
      {"unk_token", nullptr},
      {"continuing_subword_prefix", nullptr},
      {"end_of_word_suffix", nullptr},
      {"fuse_unk", false},
      {"byte_fallback", false},
      {"vocab", vocab},
      {"merges", Json::array()}};
  const Json file{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model", model}};
  return file.dump(2) + "\n";
}

}  // namespace

std::shared_ptr<const Tokenizer> byte_tokenizer() {
  static const auto tokenizer = std::make_shared<const ByteTokenizer>();
  return tokenizer;
}

}  // namespace trireme::data
