// Tokenizers: text to tokens and back.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

/// Where the tokens of a text go, some at a time.
using TokenSink = std::function<void(std::span<const int64_t>)>;

/// Text to tokens and back. Never changes, so any thread may use it.
///
///     const auto tokenizer = load_tokenizer("model/tokenizer.json");
///     const std::vector<int64_t> tokens = tokenizer->encode("Hello, world");
///     std::cout << tokenizer->decode(tokens);
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The tokens of a text, nothing added. Special tokens that stand in the text as they
  /// are written are found.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The same for texts whose tokens should not stay in memory as 8 bytes each.
  virtual void encode_to(std::string_view text, const TokenSink& sink) const = 0;
  /// With what the tokenizer puts around a text for its model, as the start of text.
  virtual std::vector<int64_t> encode_prompt(std::string_view text) const;

  /// The bytes that the tokens stand for, special tokens as they are written. A token
  /// may be a part of a character, so this need not be valid UTF-8: see as_utf8().
  /// InvalidArgument for what is no token.
  virtual std::string decode(std::span<const int64_t> tokens) const = 0;

  /// All tokens are below this number.
  virtual int64_t vocab_size() const = 0;
  /// The token between two documents, if there is one.
  virtual std::optional<int64_t> end_of_text() const { return std::nullopt; }
  /// "bytes" or "bpe".
  virtual std::string_view kind() const = 0;
  /// The content of a tokenizer.json that gives this tokenizer, to be kept beside a
  /// model.
  virtual std::string to_json() const = 0;
};

/// Each byte is a token, 256 in all: any text, and any bytes, without training.
std::shared_ptr<const Tokenizer> byte_tokenizer();

/// The byte-level BPE tokenizer of a tokenizer.json of Hugging Face, or of a model's
/// folder that has one. Gives the tokens that the `tokenizers` package gives.
/// InvalidArgument if the file is damaged; NotSupported, with the field and its value,
/// if it asks for what is not there (docs/data.md has what is).
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);
/// The same from the content of a file; `file` is for messages.
std::shared_ptr<const Tokenizer> parse_tokenizer(
    std::string_view json, const std::string& file);

}  // namespace trireme::data
