// Tokens that stand in a text as they are written: "<|endoftext|>".
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

struct AddedToken {
  int64_t token = 0;
  std::string content;
  /// The space before it, or after it, belongs to it.
  bool left_strip = false;
  bool right_strip = false;
  /// Looked for after the others, in what they have left.
  bool normalized = false;
};

/// Finds added tokens in text: the leftmost, and of those the longest. Never changes,
/// so any thread may use it.
///
///     const AddedTokens added({{.token = 7, .content = "<end>"}});
///     added.cut("a<end>b", on_text, on_token);  // "a", token 7, "b"
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Gives the parts of a text in order: those without added tokens to `on_text`, which
  /// are never empty, the others to `on_token`.
  void cut(
      std::string_view text,
      const std::function<void(std::string_view)>& on_text,
      const std::function<void(int64_t)>& on_token) const;

 private:
  const AddedToken* match(std::string_view text) const;

  /// By the first byte, the longest first.
  std::array<std::vector<AddedToken>, 256> by_byte_;
};

}  // namespace trireme::data
