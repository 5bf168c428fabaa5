// What the tests of `trireme schedule` share.
#pragma once
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/cli/front.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::cli {

using Json = nlohmann::json;
namespace fs = std::filesystem;

/// What `trireme schedule` says to some words, in this process.
struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

inline Answer ask(std::vector<std::string> words) {
  words.insert(words.begin(), "schedule");
  std::ostringstream out, err;
  const int code = run_front(words, out, err);
  return {.code = code, .out = out.str(), .err = err.str()};
}

using testing::contains;

/// A folder of its own, gone at the end.
class ScheduleFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_.path() / name).native();
  }
  std::string write(const std::string& name, const std::string& content) const {
    return folder_.write(name, content).native();
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(
        fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  const testing::ScratchFolder folder_;
};

}  // namespace trireme::cli
