// `trireme run` as a program, with ranks that do what a test tells them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../launch/launched.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {

/// The end of a test proves that no process is left.
class RunCase : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  ~RunCase() override {
    EXPECT_TRUE(mark_.gone_within(10s))
        << mark_.found().size() << " processes are left";
  }

  /// `trireme run OPTIONS -- rank_program MARK STEPS`.
  Words command(const Words& options, const Words& steps) const {
    Words all = {TRIREME_PROGRAM, "run"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", RANK_PROGRAM, mark_.word()});
    all.insert(all.end(), steps.begin(), steps.end());
    return all;
  }

  std::unique_ptr<Launched> launch(
      const Words& options,
      const Words& steps,
      const std::function<void()>& prepare = {}) const {
    return std::make_unique<Launched>(command(options, steps), prepare);
  }

  /// Runs it to its end; what it has printed is in out_ and err_.
  int run(
      const Words& options,
      const Words& steps,
      const std::function<void()>& prepare = {}) {
    const auto launched = launch(options, steps, prepare);
    const Ending ending = launched->finish();
    EXPECT_EQ(ending.signal, 0);
    out_ = launched->out();
    err_ = launched->err();
    EXPECT_TRUE(mark_.found().empty()) << "a process has outlived the launcher";
    return ending.exit_code;
  }

  void expect_err(const std::string& part) const {
    EXPECT_NE(err_.find(part), std::string::npos) << part << " in\n" << err_;
  }

  /// The process between the launcher and its ranks.
  static pid_t keeper_of(const Launched& launched) {
    const auto children = find_processes(
        [&](pid_t, const ProcessStat& stat) { return stat.parent == launched.pid(); });
    EXPECT_EQ(children.size(), 1u);
    return children.empty() ? -1 : children[0];
  }

  const Mark mark_;
  const testing::ScratchFolder folder_;
  std::string out_;
  std::string err_;
};

/// Measures from its making.
class Stopwatch {
 public:
  std::chrono::steady_clock::duration passed() const {
    return std::chrono::steady_clock::now() - start_;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace trireme::launch
