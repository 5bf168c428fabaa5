// Short lines for people on stderr. Quiet by default: TRIREME_LOG=info turns it up, and
// TRIREME_LOG=warn,comm=debug for one module alone.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

namespace trireme {

/// How much a line matters. Off is for settings only; no line has it.
enum class LogLevel { Debug, Info, Warn, Error, Off };

/// "debug", "info", "warn", "error" or "off".
const char* to_string(LogLevel level);

/// What is printed: lines at or above the level of their module.
struct LogLevels {
  LogLevel general = LogLevel::Warn;
  std::map<std::string, LogLevel, std::less<>> modules;

  /// The level that holds for `module`.
  LogLevel of(std::string_view module) const;

  /// The lowest of all levels: what is below it is printed by no module.
  LogLevel lowest() const;
};

/// Reads "info" or "warn,comm=debug,net=off"; InvalidArgument for anything else. The
/// log itself never throws: a bad TRIREME_LOG gives one warning at first use, and the
/// default.
LogLevels parse_log_levels(std::string_view text);

/// Sets the levels of this process in place of TRIREME_LOG.
void set_log_levels(LogLevels levels);

/// Sets the rank in front of the lines of this thread, as "[trireme 3/8 comm]"; a size
/// of 0 takes it away. By thread, because ranks may be threads of one process: a rank
/// that starts a thread sets it there too.
void set_log_rank(int rank, int size);

/// Keeps a sink in place; the former one comes back when it is destroyed.
class LogSinkScope {
 public:
  explicit LogSinkScope(std::function<void(std::string_view)> sink);
  ~LogSinkScope();
  LogSinkScope(const LogSinkScope&) = delete;
  LogSinkScope& operator=(const LogSinkScope&) = delete;

 private:
  std::function<void(std::string_view)> former_;
};

/// Sends the lines of all threads to `sink` instead of stderr, for tests. Lines come
/// one at a time, each without its newline; the sink must not log. Scopes must nest.
///
///     std::vector<std::string> lines;
///     auto scope = set_log_sink([&](std::string_view line) { lines.emplace_back(line);
///     });
[[nodiscard]] LogSinkScope set_log_sink(std::function<void(std::string_view)> sink);

/// The names that TRIREME_LOG takes.
namespace log_level {
inline constexpr LogLevel debug = LogLevel::Debug;
inline constexpr LogLevel info = LogLevel::Info;
inline constexpr LogLevel warn = LogLevel::Warn;
inline constexpr LogLevel error = LogLevel::Error;
}  // namespace log_level

namespace log_detail {

// What is below this prints nowhere. Starts at the bottom, so that the first line of
// the process comes to `enabled`, which reads the variable.
inline std::atomic<LogLevel> lowest_level{LogLevel::Debug};

bool enabled(LogLevel level, std::string_view module);

// One line; printed when it is destroyed, at the end of the statement.
class Line {
 public:
  Line(LogLevel level, std::string_view module) : level_(level), module_(module) {}
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  LogLevel level_;
  std::string_view module_;
  std::ostringstream stream_;
};

// Gives both arms of TRIREME_LOG's ?: the type void; & binds weaker than <<.
struct Discard {
  void operator&(std::ostream&) const {}
};

}  // namespace log_detail
}  // namespace trireme

/// Prints one line: `TRIREME_LOG(info, "comm") << "joined a world of " << size;`. When
/// the level is off everywhere it costs one comparison, and the operands are not
/// evaluated. A line is one write(2), so lines of several ranks do not mix (on a pipe,
/// up to 4096 bytes); control characters in it are escaped. Never throws for its own
/// part.
#define TRIREME_LOG(level, module)                                             \
  (::trireme::log_level::level <                                               \
       ::trireme::log_detail::lowest_level.load(std::memory_order_relaxed) ||  \
   !::trireme::log_detail::enabled(::trireme::log_level::level, (module)))     \
      ? void(0)                                                                \
      : ::trireme::log_detail::Discard() &                                     \
            ::trireme::log_detail::Line(::trireme::log_level::level, (module)) \
                .stream()
