// What a test changes in its process and puts back: the log and variables.
#pragma once
#include <mutex>
#include <optional>
#include <stdlib.h>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/log.h"

namespace trireme::testing {

/// Collects the lines of the log, of all threads; those of this one begin without a
/// rank.
class LogScope {
 public:
  LogScope() { set_log_rank(0, 0); }
  std::vector<std::string> lines() const {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  LogSinkScope scope_ = set_log_sink([this](std::string_view line) {
    std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  });
};

/// Sets a variable of this process, or takes it away.
class VariableScope {
 public:
  VariableScope(std::string name, std::optional<std::string> value)
      : name_(std::move(name)) {
    if (const char* former = ::getenv(name_.c_str()))
      former_ = former;
    put(value);
  }
  ~VariableScope() { put(former_); }
  VariableScope(const VariableScope&) = delete;
  VariableScope& operator=(const VariableScope&) = delete;

 private:
  void put(const std::optional<std::string>& value) const {
    if (value)
      ::setenv(name_.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }
  std::string name_;
  std::optional<std::string> former_;
};

}  // namespace trireme::testing
