#include "trireme/data/tokenizer.h"

#include "trireme/data/bpe_tokenizer.h"
#include "trireme/data/mapped_file.h"
#include "trireme/data/tokenizer_spec.h"

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

std::shared_ptr<const Tokenizer> parse_tokenizer(
    std::string_view json, const std::string& file) {
  return make_bpe_tokenizer(parse_tokenizer_spec(json, file), std::string(json), file);
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path file =
      std::filesystem::is_directory(path, ignored) ? path / "tokenizer.json" : path;
  return parse_tokenizer(MappedFile(file).text(), file.string());
}

}  // namespace trireme::data
