// What a test changes in its process and puts back: the log, a variable, a folder.
#pragma once
#include <filesystem>
#include <mutex>
#include <optional>
#include <stdlib.h>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/log.h"

namespace trireme::testing {

/// Collects the lines of the log, of all threads.
class LogScope {
 public:
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

/// A new folder that goes with everything in it.
class FolderScope {
 public:
  FolderScope() {
    std::string name =
        (std::filesystem::temp_directory_path() / "trireme-comm-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~FolderScope() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FolderScope(const FolderScope&) = delete;
  FolderScope& operator=(const FolderScope&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace trireme::testing
