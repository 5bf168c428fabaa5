// The list of backends.
#include "trireme/comm/backend.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "fake_engine.h"
#include "trireme/comm/init.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/mpi/mpi_backend.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;

// The list belongs to the process, so that every test has a name of its own.
std::shared_ptr<Engine> start_fake(const BackendContext&) {
  return std::make_shared<FakeEngine>(0, 1);
}

bool knows(const std::string& name) {
  const auto names = backends();
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(Backend, KnowsItsOwnInOrder) {
  const auto names = backends();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_TRUE(knows("mpi"));  // also where it can only say what is missing
  EXPECT_TRUE(knows("none"));
  EXPECT_TRUE(knows("shm"));
  EXPECT_FALSE(knows("local"));
}

TEST(Backend, FindsOneThatAProgramAdded) {
  LaunchEnv seen;
  std::chrono::milliseconds allowed{0};
  register_backend("pigeon", [&](const BackendContext& context) {
    seen = context.env;
    allowed = context.deadline.allowed();
    return LocalWorld(1).join(0, context.deadline);
  });
  EXPECT_TRUE(knows("pigeon"));
  const Group group = init(
      {.rank = 3, .world_size = 8, .local_rank = 1, .local_world_size = 4},
      {.backend = "pigeon", .timeout = std::chrono::milliseconds(7000)});
  EXPECT_EQ(group.size(), 1);
  EXPECT_EQ(seen.rank, 3);
  EXPECT_EQ(seen.world_size, 8);
  EXPECT_EQ(seen.local_rank, 1);
  EXPECT_EQ(allowed, std::chrono::milliseconds(7000));
  EXPECT_EQ(group.options().timeout, std::chrono::milliseconds(7000));
}

TEST(Backend, RefusesASecondOneOfAName) {
  register_backend("raven", start_fake);
  for (const std::string name : {"raven", "shm", "none"})
    EXPECT_EQ(
        message_of<InvalidArgument>([&] { register_backend(name, start_fake); }),
        "[comm] expected a new backend with a name and a factory, got \"" + name +
            "\", which exists already; choose another name, or give both");
}

TEST(Backend, RefusesNoName) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { register_backend("", start_fake); }),
      "[comm] expected a new backend with a name and a factory, got \"\"; choose "
      "another name, or give both");
  EXPECT_FALSE(knows(""));
}

TEST(Backend, RefusesNoFactory) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { register_backend("dodo", nullptr); }),
      "[comm] expected a new backend with a name and a factory, got \"dodo\" without a "
      "factory; choose another name, or give both");
  EXPECT_FALSE(knows("dodo"));
}

TEST(Backend, ListsTheNamesForAWrongOne) {
  register_backend("swift", start_fake);
  const BackendContext context{.deadline = Deadline::after(std::chrono::seconds(1))};
  const std::string what =
      message_of<InvalidArgument>([&] { start_backend("sub\nmarine", context); });
  EXPECT_TRUE(contains(what, "[comm] expected a backend out of "));
  std::string all;
  for (const std::string& name : backends())
    all += (all.empty() ? "" : ", ") + name;
  EXPECT_TRUE(contains(
      what,
      all + ", got \"sub\\nmarine\"; see InitOptions::backend and TRIREME_BACKEND"));
}

TEST(Backend, SaysHowLocalRanksAreStarted) {
  const BackendContext context{.deadline = Deadline::after(std::chrono::seconds(1))};
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { start_backend("local", context); }),
      ", got \"local\"; local ranks are threads: start them with run_local()"));
}

TEST(Backend, PassesOnTheErrorOfAFactory) {
  register_backend("kiwi", [](const BackendContext&) -> std::shared_ptr<Engine> {
    throw NotSupported("[kiwi] cannot fly");
  });
  const BackendContext context{.deadline = Deadline::after(std::chrono::seconds(1))};
  EXPECT_EQ(
      message_of<NotSupported>([&] { start_backend("kiwi", context); }),
      "[kiwi] cannot fly");
}

TEST(Backend, PicksWhatFits) {
  EXPECT_EQ(pick_backend({}), "none");
  EXPECT_EQ(pick_backend({.world_size = 4, .local_world_size = 4}), "shm");
  // On one host shared memory is faster, whoever started the ranks.
  LaunchEnv env{.launcher = Launcher::OpenMpi, .world_size = 4, .local_world_size = 4};
  EXPECT_EQ(pick_backend(env), "shm");
  env.local_world_size = 2;
  for (const Launcher launcher : {Launcher::OpenMpi, Launcher::Slurm}) {
    env.launcher = launcher;
    if (has_mpi()) {
      EXPECT_EQ(pick_backend(env), "mpi");
    } else {
      EXPECT_TRUE(contains(
          message_of<NotSupported>([&] { pick_backend(env); }),
          "got 2 of 4 here; for several hosts set MASTER_ADDR and MASTER_PORT"));
    }
  }
  env.launcher = Launcher::Torchrun;
  EXPECT_TRUE(
      contains(message_of<NotSupported>([&] { pick_backend(env); }), "with mpirun"));
  env.master_addr = "node0";
  env.master_port = 29500;
  EXPECT_EQ(pick_backend(env), "tcp");
}

TEST(Backend, NoneIsForOneRank) {
  const BackendContext context{
      .env = {.world_size = 2, .local_world_size = 2},
      .deadline = Deadline::after(std::chrono::seconds(1))};
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { start_backend("none", context); }),
      "[comm] expected one rank for the backend \"none\", got WORLD_SIZE=2; use "
      "\"shm\"");
}

}  // namespace
}  // namespace trireme::comm
