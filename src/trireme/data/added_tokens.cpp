#include "trireme/data/added_tokens.h"

#include <algorithm>

#include "trireme/data/unicode.h"
#include "trireme/data/utf8.h"

namespace trireme::data {
namespace {

size_t spaces_at_start(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const CodePoint point = first_code_point(text.substr(end));
    if (class_of(point.value) != CharClass::Space)
      break;
    end += point.bytes;
  }
  return end;
}

/// Where the spaces begin that the text ends with.
size_t spaces_at_end(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t before = begin_of_character(text, begin);
    if (class_of(first_code_point(text.substr(before)).value) != CharClass::Space)
      break;
    begin = before;
  }
  return begin;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
  std::stable_sort(
      tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) {
        return a.content.size() > b.content.size();
      });
  for (AddedToken& token : tokens)
    if (!token.content.empty())
      by_byte_[static_cast<uint8_t>(token.content.front())].push_back(std::move(token));
}

const AddedToken* AddedTokens::match(std::string_view text) const {
  for (const AddedToken& token : by_byte_[static_cast<uint8_t>(text.front())])
    if (text.starts_with(token.content))
      return &token;
  return nullptr;
}

void AddedTokens::cut(
    std::string_view text,
    const std::function<void(std::string_view)>& on_text,
    const std::function<void(int64_t)>& on_token) const {
  size_t done = 0;  // all before it was given
  size_t at = 0;
  while (at < text.size()) {
    const AddedToken* token = match(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    at += token->content.size();
    if (token->left_strip)
      begin = std::max(spaces_at_end(text.substr(0, begin)), done);
    if (begin > done)
      on_text(text.substr(done, begin - done));
    on_token(token->token);
    done = at;
    if (token->right_strip)
      done += spaces_at_start(text.substr(at));
  }
  if (done < text.size())
    on_text(text.substr(done));
}

}  // namespace trireme::data
