#include "trireme/data/tokenizer.h"

#include <gtest/gtest.h>

namespace trireme::data {
namespace {

/// A letter is a token; they come one at a time.
class Words : public Tokenizer {
 public:
  void encode_to(std::string_view text, const TokenSink& sink) const override {
    for (const char letter : text) {
      const int64_t token = letter - 'a';
      sink({&token, 1});
    }
  }
  std::string decode(std::span<const int64_t> /*tokens*/) const override { return ""; }
  int64_t vocab_size() const override { return 26; }
  std::string_view kind() const override { return "words"; }
  std::string to_json() const override { return "{}"; }
};

TEST(Tokenizer, CollectsWhatComesInParts) {
  const Words tokenizer;
  EXPECT_EQ(tokenizer.encode("cab"), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(tokenizer.encode_prompt("cab"), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
}

}  // namespace
}  // namespace trireme::data
