// What happens to the text that ranks print, apart from reading and writing it.
#pragma once
#include <string>
#include <string_view>

namespace trireme::launch {

/// Puts a prefix in front of every line. A line is held back until it is complete,
/// so that lines of several ranks do not mix; one that grows beyond kMostHeld comes in
/// pieces, each as a line of its own.
class LinePrefixer {
 public:
  static constexpr size_t kMostHeld = size_t{64} << 10;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Takes the next bytes and appends to `out` what is complete with them.
  void add(std::string_view bytes, std::string& out);
  /// Appends the last line, if it came without its end.
  void finish(std::string& out);

 private:
  static size_t line_end(std::string_view bytes);
  void emit(std::string_view bytes, std::string& out);

  std::string prefix_;
  std::string held_;
};

/// The last bytes of a stream, for the report of a failure.
class Tail {
 public:
  static constexpr size_t kMostBytes = size_t{8} << 10;

  void add(std::string_view bytes);
  /// The last `most` lines, without what stands before the first whole one.
  std::string last_lines(int most) const;

 private:
  std::string bytes_;
  bool cut_ = false;
};

/// Every line of `text` with `indent` in front, control characters other than tab
/// escaped, each cut at 500 bytes.
std::string indented(std::string_view text, std::string_view indent);

}  // namespace trireme::launch
