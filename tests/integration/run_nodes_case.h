// Several launchers of one job, which here are all of this machine.
#pragma once
#include "run_case.h"
#include "trireme/core/environment.h"

namespace trireme::launch {

using LaunchedPtr = std::unique_ptr<Launched>;

class RunNodesProcs : public RunCase {
 protected:
  // One node of a job; its ranks do the steps.
  LaunchedPtr node(int rank, const Words& options, const Words& steps) const {
    Words all = {"--master-addr", "127.0.0.1", "--master-port", text(port_)};
    if (rank >= 0)
      all.insert(all.end(), {"--node-rank", text(rank)});
    all.insert(all.end(), options.begin(), options.end());
    return launch(all, steps, [this] { protect(); });
  }
  void protect() const {
    for (const auto& [name, value] : Environment::of_process().with_prefix("TRIREME_"))
      ::unsetenv(name.c_str());
    for (const auto& [name, value] : protection_)
      ::setenv(name.c_str(), value.c_str(), 1);
  }
  static bool has(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
  }
  static void expect(Launched& launched, int code) {
    EXPECT_EQ(launched.finish(), Ending{.exit_code = code})
        << launched.out() << launched.err();
  }
  void expect_said(const Launched& launched, const std::string& part) const {
    EXPECT_TRUE(has(launched.err(), part)) << part << " in\n" << launched.err();
  }
  void kill_whole(const Launched& launched) const {
    const pid_t keeper = keeper_of(launched);
    launched.kill(SIGSTOP);  // so that neither cleans up after the other
    ::kill(keeper, SIGKILL);
    launched.kill(SIGKILL);
  }

  int port_ = quiet_port();
  Environment::Variables protection_ = {{"TRIREME_SECURITY", "insecure-loopback"}};
};

inline const std::vector<std::string> kTwo = {"--nnodes", "2"};

inline std::vector<std::string> two(std::initializer_list<std::string> more) {
  std::vector<std::string> all = kTwo;
  all.insert(all.end(), more);
  return all;
}

}  // namespace trireme::launch
