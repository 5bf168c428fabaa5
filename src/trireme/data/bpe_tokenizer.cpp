#include "trireme/data/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/data/bpe.h"
#include "trireme/data/byte_alphabet.h"
#include "trireme/data/nfc.h"
#include "trireme/data/unicode.h"
#include "trireme/data/utf8.h"

namespace trireme::data {
namespace {

/// The bytes of a token. One that is not written in the letters of bytes stands for
/// itself; no merge can make it.
std::string bytes_of_token(const std::string& written) {
  return bytes_of_letters(written).value_or(written);
}

BpeOptions bpe_options(const TokenizerSpec& spec) {
  BpeOptions options{.ignore_merges = spec.ignore_merges};
  for (const auto& [written, token] : spec.vocab)
    if (auto bytes = bytes_of_letters(written))
      options.vocab.emplace_back(*std::move(bytes), token);
  for (const auto& [left, right] : spec.merges)
    options.merges.emplace_back(bytes_of_token(left), bytes_of_token(right));
  return options;
}

/// The text of every token by its number, of which no two have the same.
class TokenTexts {
 public:
  TokenTexts(const TokenizerSpec& spec, const std::string& file) : file_(file) {
    for (const auto& [written, token] : spec.vocab)
      add(written, token);
    for (const AddedToken& added : spec.added)
      add(added.content, added.token);  // the vocabulary may have it already
  }
  std::unordered_map<int64_t, std::string> take() { return std::move(texts_); }

 private:
  void add(const std::string& written, int64_t token) {
    const auto [known, is_new] = numbers_.emplace(written, token);
    if (!is_new && known->second == token)
      return;
    const bool is_free = texts_.emplace(token, bytes_of_token(written)).second;
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
    if (!is_new || !is_free)
      throw InvalidArgument(text(
          "[data] ",
          in_quotes(file_),
          ": expected one number for each token, and one token for each number, got ",
          token,
          " for ",
          in_quotes(written),
          is_new ? ", which another token has" : ", which has another number already",
          "; correct the file"));
#endif
  }

  const std::string& file_;
  std::unordered_map<std::string, int64_t> numbers_;
  std::unordered_map<int64_t, std::string> texts_;
};

// What models call the end of a document; the file does not say which token it is.
constexpr std::array<std::string_view, 5> kEnds{
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<｜end▁of▁sentence｜>", "<eos>"};

std::optional<int64_t> find_end_of_text(const std::vector<AddedToken>& added) {
  for (const std::string_view name : kEnds)
    for (const AddedToken& token : added)
      if (token.content == name)
        return token.token;
  return std::nullopt;
}

/// Those that are looked for in normalized text, or the others.
std::vector<AddedToken> added_tokens(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : spec.added)
    if (token.normalized == normalized)
      tokens.push_back(token);
  for (AddedToken& token : tokens)
    if (normalized && spec.nfc)
      token.content = nfc(token.content);
  return tokens;
}

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(const TokenizerSpec& spec, std::string json, const std::string& file);

  void encode_to(std::string_view text, const TokenSink& sink) const override;
  std::vector<int64_t> encode_prompt(std::string_view text) const override;
  std::string decode(std::span<const int64_t> tokens) const override;
  int64_t vocab_size() const override { return vocab_size_; }
  std::optional<int64_t> end_of_text() const override { return end_of_text_; }
  std::string_view kind() const override { return "bpe"; }
  std::string to_json() const override { return json_; }

 private:
  class Run;

  Bpe bpe_;
  AddedTokens first_, second_;
  bool nfc_, add_prefix_space_;
  std::vector<Splitter> splitters_;
  std::vector<int64_t> before_, after_;
  std::unordered_map<int64_t, std::string> texts_;
  int64_t vocab_size_ = 0;
  std::optional<int64_t> end_of_text_;
  std::string json_;
};

BpeTokenizer::BpeTokenizer(
    const TokenizerSpec& spec, std::string json, const std::string& file)
    : bpe_(bpe_options(spec)),
      first_(added_tokens(spec, false)),
      second_(added_tokens(spec, true)),
      nfc_(spec.nfc),
      add_prefix_space_(spec.add_prefix_space),
      splitters_(spec.splitters),
      before_(spec.before),
      after_(spec.after),
      texts_(TokenTexts(spec, file).take()),
      end_of_text_(find_end_of_text(spec.added)),
      json_(std::move(json)) {
  for (const auto& [token, bytes] : texts_)
    vocab_size_ = std::max(vocab_size_, token + 1);
  // Text is UTF-8 here, so some bytes never come.
  for (int byte = 0; byte < 0xf5; ++byte)
    if (spec.handles_unknown && byte != 0xc0 && byte != 0xc1 &&
        !bpe_.has_byte(static_cast<uint8_t>(byte)))
      throw NotSupported(text(
          "[data] ",
          in_quotes(file),
          ", field model.vocab: expected a token for each byte where unk_token or "
          "byte_fallback is set, got none for byte ",
          byte,
          "; tokenize with another program and train on its .bin file"));
}

/// One text on its way to tokens. The same words come again and again, so their tokens
/// are kept.
class BpeTokenizer::Run {
 public:
  Run(const BpeTokenizer& tokenizer, const TokenSink& sink)
      : tokenizer_(tokenizer), sink_(sink) {}

  void add_text(std::string_view text) {
    tokenizer_.first_.cut(
        text,
        [&](std::string_view rest) {
          if (tokenizer_.nfc_ && find_not_nfc(rest) != rest.size())
            add_normalized(nfc(rest));
          else
            add_normalized(rest);
        },
        [&](int64_t token) { add_token(token); });
    give();
  }

 private:
  void add_normalized(std::string_view text) {
    tokenizer_.second_.cut(
        text,
        [&](std::string_view piece) { add_piece(piece); },
        [&](int64_t token) { add_token(token); });
  }

  void add_token(int64_t token) { tokens_.push_back(token); }

  void add_piece(std::string_view piece) {
    if (!tokenizer_.add_prefix_space_ || piece.starts_with(' '))
      return split(piece, 0);
    split(text(' ', piece), 0);
  }

  void split(std::string_view piece, size_t step) {
    if (step == tokenizer_.splitters_.size())
      return add_word(piece);
    while (!piece.empty())
      split(take_word(tokenizer_.splitters_[step], piece), step + 1);
  }

  void add_word(std::string_view word) {
    constexpr size_t kLongestKept = 64, kMostKept = size_t{1} << 17;
    if (const auto found = known_.find(word); found != known_.end()) {
      const auto begin = kept_.begin() + found->second.first;
      tokens_.insert(tokens_.end(), begin, begin + found->second.count);
    } else {
      const size_t before = tokens_.size();
      tokenizer_.bpe_.encode(word, scratch_, tokens_);
      if (word.size() <= kLongestKept && known_.size() < kMostKept) {
        const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(before);
        known_.emplace(
            word, Place{std::ssize(kept_), std::distance(begin, tokens_.end())});
        kept_.insert(kept_.end(), begin, tokens_.end());
      }
    }
    if (tokens_.size() >= kGiveAt)
      give();
  }

  void give() {
    if (!tokens_.empty())
      sink_(tokens_);
    tokens_.clear();
  }

  static constexpr size_t kGiveAt = 4096;
  /// Of a word's tokens in `kept_`.
  struct Place {
    std::ptrdiff_t first;
    std::ptrdiff_t count;
  };

  const BpeTokenizer& tokenizer_;
  const TokenSink& sink_;
  std::vector<int64_t> tokens_;
  TextMap<Place> known_;
  std::vector<int64_t> kept_;
  Bpe::Scratch scratch_;
};

void BpeTokenizer::encode_to(std::string_view text, const TokenSink& sink) const {
  std::string valid;
  if (find_invalid(text) != text.size()) {
    valid = as_utf8(text);
    text = valid;
  }
  Run(*this, sink).add_text(text);
}

std::vector<int64_t> BpeTokenizer::encode_prompt(std::string_view text) const {
  std::vector<int64_t> tokens = before_;
  const std::vector<int64_t> inner = encode(text);
  tokens.insert(tokens.end(), inner.begin(), inner.end());
  tokens.insert(tokens.end(), after_.begin(), after_.end());
  return tokens;
}

std::string BpeTokenizer::decode(std::span<const int64_t> tokens) const {
  std::string bytes;
  for (const int64_t token : tokens) {
    const auto found = texts_.find(token);
    if (found == texts_.end())
      throw InvalidArgument(text(
          "[data] expected tokens of the vocabulary, below ",
          vocab_size_,
          ", got ",
          token,
          "; decode with the tokenizer of the model"));
    bytes += found->second;
  }
  return bytes;
}

}  // namespace

std::shared_ptr<const Tokenizer> make_bpe_tokenizer(
    const TokenizerSpec& spec, std::string json, const std::string& file) {
  return std::make_shared<const BpeTokenizer>(spec, std::move(json), file);
}

}  // namespace trireme::data
