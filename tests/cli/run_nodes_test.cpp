// What the command line of `trireme run` says about nodes.
#include "trireme/cli/run_nodes.h"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::cli {
namespace {

using Words = std::vector<std::string>;
using std::chrono::milliseconds;

launch::Options options_of(const Words& words, const Words& program = {"./train"}) {
  CLI::App run("test", "run");
  RunArguments arguments;
  add_run_options(run, arguments);
  Words before = split_command(words, arguments.first);
  before.insert(before.end(), program.begin(), program.end());
  std::reverse(before.begin(), before.end());
  run.parse(before);
  launch::Options options{
      .master_addr = arguments.master_addr, .master_port = arguments.master_port};
  read_nodes(arguments, options);
  return options;
}

// What the launcher of another host makes of its command.
RunArguments read_remote(const launch::RemoteNode& node) {
  CLI::App run("test", "run");
  RunArguments arguments;
  add_run_options(run, arguments);
  Words before =
      split_command({node.command.begin() + 2, node.command.end()}, arguments.first);
  std::reverse(before.begin(), before.end());
  run.parse(before);
  return arguments;
}

std::string nodes_refusal(const Words& words) {
  try {
    options_of(words);
    return "took it";
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const CLI::ParseError& error) {
    return text("parser: ", error.what());
  }
}

TEST(RunNodes, AreOneByDefault) {
  EXPECT_FALSE(options_of({}).nodes);
  EXPECT_FALSE(options_of({"--nnodes", "1:1", "--rdzv-backend", "c10d"}).nodes);
  EXPECT_EQ(options_of({}).master_port, 0);
}

// torchrun's way to start several jobs on one host is --rdzv-endpoint localhost:0.
TEST(RunNodes, OfOneHostMeetNowhereButMustBeWrittenRight) {
  for (const char* endpoint : {"localhost:0", "h", "h:77"}) {
    const auto options =
        options_of({"--rdzv-endpoint", endpoint, "--rdzv-conf", "timeout=9"});
    EXPECT_FALSE(options.nodes);
    EXPECT_EQ(options.master_port, 0);
    EXPECT_EQ(options.master_addr, RunArguments().master_addr);
  }
  EXPECT_TRUE(nodes_refusal({"--rdzv-conf", "nonsense"})
                  .starts_with("[cli] expected --rdzv-conf as "));
  EXPECT_TRUE(nodes_refusal({"--nnodes", "1", "--rdzv-endpoint", "h:x"})
                  .starts_with("[cli] expected --rdzv-endpoint as host or host:port"));
}

TEST(RunNodes, AreReadInBothSpellings) {
  for (const Words& words :
       {Words{"--nnodes=3", "--node-rank=2", "--master-addr=h", "--master-port=77"},
        Words{
            "--nnodes",
            "3",
            "--node_rank",
            "2",
            "--master_addr",
            "h",
            "--master_port",
            "77"},
        Words{"--nnodes", "3:3", "--node_rank", "2", "--rdzv_endpoint", "h:77"}}) {
    const launch::Options options = options_of(words);
    ASSERT_TRUE(options.nodes);
    EXPECT_EQ(options.nodes->least, 3);
    EXPECT_EQ(options.nodes->most, 3);
    EXPECT_EQ(options.nodes->rank, 2);
    EXPECT_EQ(options.master_addr, "h");
    EXPECT_EQ(options.master_port, 77);
  }
}

TEST(RunNodes, HaveTheirDefaults) {
  const launch::Options options = options_of({"--nnodes", "2:4"});
  EXPECT_EQ(options.nodes->least, 2);
  EXPECT_EQ(options.nodes->most, 4);
  EXPECT_EQ(options.nodes->rank, -1);
  EXPECT_EQ(options.master_port, 29500);
  EXPECT_EQ(options.nodes->join, std::chrono::minutes(5));
  EXPECT_EQ(options_of({"--nnodes", "2", "--rdzv-endpoint", "h"}).master_port, 29400);
  const auto six = options_of({"--nnodes", "2", "--rdzv-endpoint", "[::1]"});
  EXPECT_EQ(six.master_addr, "[::1]");
}

TEST(RunNodes, TakeTheirTimes) {
  const auto nodes =
      options_of(
          {"--nnodes", "2", "--rdzv-conf", "join_timeout=60,last_call_timeout=0.5"})
          .nodes;
  EXPECT_EQ(nodes->join, milliseconds(60'000));
  EXPECT_EQ(nodes->last_call, milliseconds(500));
  EXPECT_EQ(
      options_of({"--nnodes", "2", "--rdzv-conf", "timeout=9"}).nodes->join,
      milliseconds(9'000));
}

TEST(RunNodes, OfOtherHostsGetACommandEach) {
  const launch::Options options = options_of(
      {"--hosts",
       "127.0.0.1,b,c",
       "-n",
       "auto",
       "--prefix",
       "--max-restarts",
       "2",
       "--ssh",
       "ssh -p 22"});
  ASSERT_TRUE(options.nodes);
  EXPECT_EQ(options.nodes->rank, 0);
  EXPECT_EQ(options.nodes->most, 3);
  EXPECT_GT(options.master_port, 0);
  EXPECT_EQ(options.nodes->shell, (Words{"ssh", "-p", "22"}));
  ASSERT_EQ(options.nodes->remotes.size(), 2u);
  EXPECT_EQ(options.nodes->remotes[1].host, "c");
  const RunArguments of_c = read_remote(options.nodes->remotes[1]);
  EXPECT_TRUE(of_c.stdin_variables);
  EXPECT_EQ(of_c.node_rank, 2);
  EXPECT_EQ(of_c.nodes, "3");
  EXPECT_EQ(of_c.first.ranks, "auto");
  EXPECT_EQ(of_c.master_addr, "127.0.0.1");
  EXPECT_EQ(of_c.master_port, options.master_port);
  EXPECT_TRUE(of_c.prefix);
  EXPECT_EQ(of_c.first.command, Words{"./train"});
}

TEST(RunNodes, OfOtherHostsGetArgumentsThatAreColons) {
  const launch::Options options =
      options_of({"--hosts", "127.0.0.1,b"}, {"./train", "::", "a", ":::", "b:"});
  const RunArguments of_b = read_remote(options.nodes->remotes[0]);
  EXPECT_EQ(of_b.first.command, (Words{"./train", ":", "a", "::", "b:"}));
  EXPECT_TRUE(of_b.others.empty());
}

TEST(RunNodes, OfOneHostAreNone) {
  const launch::Options options = options_of({"--hosts", "localhost"});
  EXPECT_FALSE(options.nodes);
  EXPECT_EQ(options.master_port, 0);
}

TEST(RunNodes, RefuseWhatCannotBeMeant) {
  for (const char* bounds :
       {"0", "many", "::", "2:", ":2", "4:2", "-1", "2:x", "99999"})
    EXPECT_TRUE(
        nodes_refusal({"--nnodes", bounds})
            .starts_with("[cli] expected --nnodes to be a number of hosts from 1 "))
        << bounds << nodes_refusal({"--nnodes", bounds});
  for (const char* endpoint : {":1", "h:0", "h:65536", "h:x"})
    EXPECT_TRUE(nodes_refusal({"--nnodes", "2", "--rdzv-endpoint", endpoint})
                    .starts_with("[cli] expected --rdzv-endpoint as host or host:port"))
        << endpoint;
  for (const char* settings : {"join_timeout", "join_timeout=0", "x=1", "timeout=nan"})
    EXPECT_TRUE(nodes_refusal({"--nnodes", "2", "--rdzv-conf", settings})
                    .starts_with("[cli] expected --rdzv-conf as "))
        << settings;
  EXPECT_TRUE(
      nodes_refusal({"--nnodes", "2", "--node-rank", "-1"}).starts_with("parser: "));
  EXPECT_TRUE(nodes_refusal({"--rdzv-backend", "etcd"}).starts_with("parser: "));
  // What would be passed over without a word.
  for (const Words& words :
       {Words{"--node-rank", "1"},
        Words{"--ssh", "ssh"},
        Words{"--standalone", "--nnodes", "2"},
        Words{"--hosts", "localhost,b", "--standalone"},
        Words{"--hosts", "localhost,-oProxyCommand=x"},
        Words{"--hosts", "localhost,b", "--master-addr", "c"},
        Words{"--nnodes", "2", "--rdzv-endpoint", "h:77", "--master-addr", "g"},
        Words{"--nnodes", "2", "--rdzv-endpoint", "h:77", "--master-port", "78"},
        Words{"--nnodes", "2", "--rdzv-endpoint", "::1"}})
    EXPECT_TRUE(nodes_refusal(words).starts_with("[cli] expected ")) << words[0];
  EXPECT_TRUE(
      nodes_refusal({"--hosts", "localhost,b", "--nnodes", "2", "--node-rank", "0"})
          .starts_with("[cli] expected --hosts alone, got --nnodes, --node-rank "
                       "beside it; "));
  EXPECT_TRUE(
      nodes_refusal({"--nnodes", "2", "--rdzv-endpoint", "h:77", "--master-port", "78"})
          .starts_with("[cli] expected one place to meet, got --rdzv-endpoint \"h:77\" "
                       "and --master-port 78; "));
  EXPECT_EQ(
      options_of({"--nnodes", "2", "--rdzv-endpoint", "[::1]:77"}).master_addr,
      "[::1]");
}

}  // namespace
}  // namespace trireme::cli
