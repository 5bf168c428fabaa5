#include "trireme/core/log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <unistd.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme {
namespace {

constexpr std::array kLevels = {
    LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error, LogLevel::Off};

struct State {
  std::mutex mutex;
  bool ready = false;
  LogLevels levels;
  std::function<void(std::string_view)> sink;
};

// Never destroyed, so that destructors of static objects may still log.
State& state() {
  static State& instance = *new State;
  return instance;
}

struct Rank {
  int rank = 0;
  int size = 0;
};
thread_local Rank this_rank;

[[noreturn]] void throw_bad_levels(std::string_view all, const std::string& why) {
  throw InvalidArgument(text(
      "[core] expected TRIREME_LOG as warn or warn,comm=debug with the levels debug, "
      "info, "
      "warn, error and off, got ",
      in_quotes(all),
      ": ",
      why,
      "; correct it or unset it"));
}

LogLevel parse_level(std::string_view all, std::string_view name) {
  for (LogLevel level : kLevels) {
    if (name == to_string(level)) {
      return level;
    }
  }
  throw_bad_levels(all, text("no level ", in_quotes(name)));
}

bool is_module_name(std::string_view name) {
  return !name.empty() &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
             std::string_view::npos;
}

void add_module(
    LogLevels& levels,
    std::string_view all,
    std::string_view module,
    std::string_view level) {
  if (!is_module_name(module)) {
    throw_bad_levels(all, text("no module can be called ", in_quotes(module)));
  }
  if (!levels.modules.emplace(module, parse_level(all, level)).second) {
    throw_bad_levels(all, text(module, " comes twice"));
  }
}

std::string line_of(LogLevel level, std::string_view module, std::string_view message) {
  std::string line = "[trireme ";
  if (this_rank.size > 0) {
    line += text(this_rank.rank, "/", this_rank.size, " ");
  }
  return line + escaped(text(module, "] ", to_string(level), ": ", message));
}

// Errors are dropped: there is no other place to tell of them.
void write_stderr(std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const auto written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written > 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return;
    }
  }
}

// Call with the mutex held. A line that cannot be printed must not end the program, nor
// may it change the errno that the caller is about to report.
void print(
    State& log,
    LogLevel level,
    std::string_view module,
    std::string_view message) noexcept {
  const int saved_errno = errno;
  try {
    std::string line = line_of(level, module, message);
    if (log.sink) {
      log.sink(line);
    } else {
      write_stderr(std::move(line));
    }
  } catch (...) {
  }
  errno = saved_errno;
}

// Call with the mutex held.
void apply(State& log, LogLevels levels) {
  log.levels = std::move(levels);
  log.ready = true;
  log_detail::lowest_level.store(log.levels.lowest(), std::memory_order_relaxed);
}

// Call with the mutex held.
void read_variable_once(State& log) {
  if (log.ready) {
    return;
  }
  apply(log, LogLevels{});
  const char* variable = std::getenv("TRIREME_LOG");
  if (variable == nullptr) {
    return;
  }
  try {
    apply(log, parse_log_levels(variable));
  } catch (const InvalidArgument& error) {
    print(log, LogLevel::Warn, "core", error.what());
  }
}

}  // namespace

const char* to_string(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return "debug";
    case LogLevel::Info:
      return "info";
    case LogLevel::Warn:
      return "warn";
    case LogLevel::Error:
      return "error";
    case LogLevel::Off:
      return "off";
  }
  return "unknown";
}

LogLevel LogLevels::of(std::string_view module) const {
  const auto found = modules.find(module);
  return found == modules.end() ? general : found->second;
}

LogLevel LogLevels::lowest() const {
  LogLevel result = general;
  for (const auto& [module, level] : modules) {
    result = std::min(result, level);
  }
  return result;
}

LogLevels parse_log_levels(std::string_view all) {
  LogLevels levels;
  bool general_given = false;
  std::size_t start = 0;
  while (start <= all.size()) {
    const std::size_t end = std::min(all.find(',', start), all.size());
    const std::string_view item = all.substr(start, end - start);
    start = end + 1;
    const auto equals = item.find('=');
    if (equals != std::string_view::npos) {
      add_module(levels, all, item.substr(0, equals), item.substr(equals + 1));
    } else if (std::exchange(general_given, true)) {
      throw_bad_levels(all, "the general level comes twice");
    } else {
      levels.general = parse_level(all, item);
    }
  }
  return levels;
}

void set_log_levels(LogLevels levels) {
  const std::lock_guard lock(state().mutex);
  apply(state(), std::move(levels));
}

void set_log_rank(int rank, int size) {
  this_rank = {rank, size};
}

LogSinkScope::LogSinkScope(std::function<void(std::string_view)> sink) {
  const std::lock_guard lock(state().mutex);
  former_ = std::exchange(state().sink, std::move(sink));
}

LogSinkScope::~LogSinkScope() {
  const std::lock_guard lock(state().mutex);
  state().sink = std::move(former_);
}

LogSinkScope set_log_sink(std::function<void(std::string_view)> sink) {
  return LogSinkScope(std::move(sink));
}

namespace log_detail {

bool enabled(LogLevel level, std::string_view module) {
  State& log = state();
  const std::lock_guard lock(log.mutex);
  read_variable_once(log);
  return level >= log.levels.of(module);
}

Line::~Line() {
  const std::lock_guard lock(state().mutex);
  print(state(), level_, module_, stream_.view());
}

}  // namespace log_detail
}  // namespace trireme
