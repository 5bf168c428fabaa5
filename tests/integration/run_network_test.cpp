// `trireme run --nnodes` on hosts that have nothing in common but a network and a key.
#include <filesystem>

#include "run_nodes_case.h"
#include "trireme/net/job_key.h"
#include "trireme/testing/hosts.h"

namespace trireme::launch {
namespace {

using testing::Hosts;

/// Two ranks a node, which meet over tcp.
class RunNetworkProcs : public RunNodesProcs {
 protected:
  void SetUp() override {
    if (const auto why = Hosts::missing(); !why.empty())
      GTEST_SKIP() << why;
    hosts_ = std::make_unique<Hosts>();
    const auto key = net::JobKey::random();
    for (const int host : {0, 1})
      key.write(key_file(host));
  }
  std::string key_file(int host) const {
    return (folder_.path() / text("host", host, ".key")).string();
  }
  LaunchedPtr on_host(int host, const std::string& mode) const {
    const Words command = {
        TRIREME_PROGRAM,
        "run",
        "--nnodes",
        "2",
        "--node-rank",
        text(host),
        "--master-addr",
        Hosts::address(0),
        "-n",
        "2",
        "--",
        WORLD_RANK,
        mark_.word(),
        mode};
    return std::make_unique<Launched>(command, [this, host] {
      hosts_->enter(host);
      protect();
      ::unsetenv("TRIREME_SECURITY");
      ::setenv("TRIREME_JOB_KEY_FILE", key_file(host).c_str(), 1);
    });
  }

  std::unique_ptr<Hosts> hosts_;
};

TEST_F(RunNetworkProcs, NodesMeetByAKeyFile) {
  const LaunchedPtr nodes[] = {on_host(0, ""), on_host(1, "")};
  for (const LaunchedPtr& one : nodes) {
    expect(*one, 0);
    EXPECT_EQ(Launched::count(one->out(), "has the sum 10\n"), 2) << one->out();
  }
}

// The launchers' heartbeat is 5 s; their ranks', 10 s, is for what launchers survive.
TEST_F(RunNetworkProcs, APulledCableIsToldOnBothSides) {
  const LaunchedPtr nodes[] = {on_host(0, "work"), on_host(1, "work")};
  for (const LaunchedPtr& one : nodes)
    ASSERT_TRUE(one->says("is at work\n", 2)) << one->err();
  const Stopwatch watch;
  hosts_->set_connected(1, false);
  for (const LaunchedPtr& one : nodes)
    expect(*one, 1);
  EXPECT_LT(watch.passed(), 7s);
  EXPECT_GT(watch.passed(), 3s) << "they were not silent";
  expect_said(*nodes[0], "[launch] node 1 (");
  expect_said(
      *nodes[1], "[launch] expected the launcher of node 0 at tcp://10.77.0.1:29500");
  for (const LaunchedPtr& one : nodes)
    expect_said(*one, "; the ranks here are stopped\n");
}

}  // namespace
}  // namespace trireme::launch
