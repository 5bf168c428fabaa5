// `trireme run` on several nodes: who finds the others, who is refused, and what
// protects it.
#include <filesystem>

#include "run_nodes_case.h"
#include "trireme/net/job_key.h"

namespace trireme::launch {
namespace {

TEST_F(RunNodesProcs, GiveTheRanksAKeyOfTheirOwn) {
  net::JobKey::random().write(folder_.path() / "job.key");
  protection_ = {{"TRIREME_JOB_KEY_FILE", folder_.path() / "job.key"}};
  const Words steps = {"variable=TRIREME_JOB_KEY", "variable=TRIREME_JOB_KEY_FILE"};
  const auto one = node(1, kTwo, steps);
  const auto zero = node(0, kTwo, steps);
  expect(*zero, 0);
  expect(*one, 0);
  EXPECT_EQ(zero->out(), one->out());
  ASSERT_EQ(zero->out().size(), std::string("TRIREME_JOB_KEY=\n").size() + 64 + 22)
      << zero->out();
  EXPECT_TRUE(has(zero->out(), "TRIREME_JOB_KEY_FILE=\n"));
  EXPECT_FALSE(has(zero->out(), net::JobKey::read(folder_.path() / "job.key").text()))
      << "it is another";
}

TEST_F(RunNodesProcs, ProveTheirNumbersByCertificates) {
  const std::string authority = folder_.path() / "authority";
  const auto keys = [](Words words) {
    words.insert(words.begin(), {TRIREME_PROGRAM, "keys"});
    Launched made(words);
    EXPECT_EQ(made.finish(), Ending{}) << made.err();
  };
  keys({"ca", authority});
  const auto take = [&](const std::string& name) {
    const std::filesystem::path own = folder_.path() / name;
    keys({"worker", name, "--ca", authority, "--out", own});
    protection_ = {
        {"TRIREME_CA_FILE", own / "ca.pem"},
        {"TRIREME_CERTIFICATE_FILE", own / (name + ".pem")},
        {"TRIREME_PRIVATE_KEY_FILE", own / (name + ".key")}};
  };
  const Words steps = {"variable=TRIREME_JOB_KEY", "variable=TRIREME_PRIVATE_KEY_FILE"};
  take("node-0");
  const auto zero = node(0, kTwo, steps);
  const auto liar = node(1, kTwo, steps);
  expect(*liar, 1);
  expect_said(*liar, "[launch] expected to join the job at tcp://127.0.0.1:");
  take("node-1");
  const auto one = node(1, kTwo, steps);
  expect(*zero, 0);
  expect(*one, 0);
  EXPECT_EQ(zero->out(), one->out());
  EXPECT_TRUE(has(one->out(), "TRIREME_PRIVATE_KEY_FILE=\n")) << one->out();
}

TEST_F(RunNodesProcs, WithoutANumberTheFirstAtTheAddressLeads) {
  const Words steps = {"variable=GROUP_RANK"};
  const Words options = {"--nnodes", "2", "--rdzv-endpoint", text("127.0.0.1:", port_)};
  const auto one = node(-1, options, steps);
  const auto other = node(-1, options, steps);
  expect(*one, 0);
  expect(*other, 0);
  EXPECT_NE(one->out(), other->out());
  EXPECT_TRUE(has(one->out() + other->out(), "GROUP_RANK=0\n"));
  EXPECT_TRUE(has(one->out() + other->out(), "GROUP_RANK=1\n"));
}

TEST_F(RunNodesProcs, MissingNodesAreNamed) {
  const auto zero = node(0, {"--nnodes", "3", "--rdzv-conf", "join_timeout=2"}, {});
  const auto two = node(2, {"--nnodes", "3"}, {});
  expect(*zero, 1);
  expect(*two, 1);
  for (const Launched* launched : {zero.get(), two.get()})
    expect_said(
        *launched, "[launch] expected 3 nodes within 2 s, got 2, without node 1; ");
  EXPECT_EQ(text(zero->out(), two->out()), "");
}

TEST_F(RunNodesProcs, AMissingLeaderIsNamed) {
  const auto one = node(1, two({"--rdzv-conf", "join_timeout=1"}), {});
  expect(*one, 1);
  expect_said(
      *one,
      text(
          "[launch] expected node 0 to listen at tcp://127.0.0.1:",
          port_,
          " within 1 s"));
}

TEST_F(RunNodesProcs, Node0IsWhereTheyMeet) {
  const auto start = [this](const std::string& address) {
    return launch(
        {"--nnodes", "2", "--node-rank", "0", "--master-addr", address}, {}, [this] {
          protect();
        });
  };
  const auto far = start("192.0.2.1");
  expect(*far, 2);
  expect_said(
      *far,
      "[launch] expected node 0 where the nodes meet, got this machine, of which "
      "\"192.0.2.1\" is no address; ");
  const auto nobody = start("no-such-host.invalid");
  expect(*nobody, 2);
  expect_said(
      *nobody, "expected a host's name or number, got \"no-such-host.invalid\"");
}

TEST_F(RunNodesProcs, Node0SaysThatOtherMachinesCannotReachIt) {
  const std::string warning = text(
      "[launch] node 0 listens at tcp://127.0.0.1:",
      port_,
      ", which only this machine can reach; ");
  const Words options = {"--nnodes", "2", "--rdzv-conf", "join_timeout=0.5"};
  const auto meant = node(0, options, {});
  expect(*meant, 1);
  EXPECT_FALSE(has(meant->err(), warning)) << "nothing protects it";
  protection_ = {{"TRIREME_JOB_KEY", net::JobKey::random().text()}};
  const auto zero = node(0, options, {});
  expect(*zero, 1);
  expect_said(*zero, warning);
}

TEST_F(RunNodesProcs, WhoDoesNotFitIsRefusedAndTheOthersGoOn) {
  const auto zero = node(0, two({"--rdzv-id", "job"}), {"say=done"});
  const auto other = node(1, two({"--rdzv-id", "another"}), {});
  expect(*other, 2);
  expect_said(
      *other,
      "[launch] expected a node of the job \"job\", got one of \"another\"; give all "
      "nodes the same --rdzv-id\n");
  const auto more = node(1, {"--nnodes", "3"}, {});
  expect(*more, 2);
  expect_said(*more, "expected --nnodes 2 as on node 0, got 3; ");
  const auto twin = node(0, kTwo, {});
  expect(*twin, 2);  // the port is taken
  const auto one = node(1, kTwo, {"say=done"});
  expect(*zero, 0);
  expect(*one, 0);
}

TEST_F(RunNodesProcs, TwoOfOneNumberAreRefused) {
  const auto zero = node(0, {"--nnodes", "3"}, {});
  const auto one = node(1, {"--nnodes", "3"}, {});
  const auto twin = node(1, {"--nnodes", "3"}, {});
  ASSERT_TRUE(within(kLong, [&] {
    return one->complains_now("a second on") || twin->complains_now("a second on");
  }));
  const bool first = one->complains_now("a second on");
  Launched& refused = first ? *one : *twin;
  expect(refused, 2);
  expect_said(refused, "[launch] expected one node of rank 1, got a second on ");
  const auto two = node(2, {"--nnodes", "3"}, {});
  expect(*zero, 0);
  expect(*two, 0);
  expect(first ? *twin : *one, 0);
}

TEST_F(RunNodesProcs, AWrongKeyIsRefused) {
  protection_ = {{"TRIREME_JOB_KEY", net::JobKey::random().text()}};
  const auto zero = node(0, two({"--rdzv-conf", "join_timeout=5"}), {});
  protection_ = {{"TRIREME_JOB_KEY", net::JobKey::random().text()}};
  const auto one = node(1, kTwo, {});
  expect(*one, 1);
  expect_said(*one, "[launch] expected to join the job at tcp://127.0.0.1:");
  expect(*zero, 1);
  expect_said(*zero, "without node 1");
}

TEST_F(RunNodesProcs, AnotherProtectionIsToldAtOnce) {
  const Environment::Variables nothing = protection_;
  const Environment::Variables key = {
      {"TRIREME_JOB_KEY", net::JobKey::random().text()}};
  for (const bool leader_has_key : {false, true}) {
    port_ = quiet_port();
    protection_ = leader_has_key ? key : nothing;
    const auto zero = node(0, kTwo, {});
    protection_ = leader_has_key ? nothing : key;
    const auto one = node(1, kTwo, {});
    const Stopwatch watch;
    expect(*one, 1);
    EXPECT_LT(watch.passed(), 20s);
    expect_said(*one, "[launch] expected to join the job at tcp://127.0.0.1:");
    expect_said(
        *one,
        leader_has_key
            ? "got one that speaks TLS; protect all workers of a job in the "
            : "got one that speaks no TLS; protect all workers of a job in ");
    EXPECT_TRUE(zero->complains("turned away a connection from tcp://127.0.0.1:"));
    zero->kill(SIGTERM);
    expect(*zero, 143);
  }
}

TEST_F(RunNodesProcs, NothingStartsUnprotected) {
  protection_ = {};
  for (const int rank : {0, 1}) {
    const auto alone = node(rank, kTwo, {});
    expect(*alone, 2);
    EXPECT_TRUE(
        has(alone->err(), "set TRIREME_JOB_KEY_FILE (trireme keys job makes one)"))
        << alone->err();
    EXPECT_EQ(Launched::count(alone->err(), "\n"), 1) << alone->err();
  }
  protection_ = {{"TRIREME_SECURITY", "insecure-loopback"}};
  const auto far = launch(
      {"--nnodes", "2", "--node-rank", "1", "--master-addr", "192.0.2.1"}, {}, [this] {
        protect();
      });
  expect(*far, 1);
  expect_said(
      *far, "expected an address of this machine for connections that nothing ");
}

TEST_F(RunNodesProcs, OtherAddressesOfThisMachineDo) {
  const auto at = [this](int rank) {
    return launch(
        {"--nnodes",
         "2",
         "--node_rank",
         text(rank),
         "--master_addr",
         "127.0.0.2",
         "--master_port",
         text(port_)},
        {"variable=MASTER_ADDR"},
        [this] { protect(); });
  };
  const auto one = at(1);
  const auto zero = at(0);
  expect(*zero, 0);
  expect(*one, 0);
  EXPECT_EQ(one->out(), "MASTER_ADDR=127.0.0.2\n");
}

}  // namespace
}  // namespace trireme::launch
