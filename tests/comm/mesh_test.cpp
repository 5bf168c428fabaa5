// Meshes: the order of ranks, and every error.
#include "trireme/comm/mesh.h"

#include <gtest/gtest.h>

#include "fake_engine.h"
#include "trireme/comm/init.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::message_of;
using Members = std::vector<int>;

Mesh mesh_of(int rank, int ranks, const std::vector<MeshAxis>& axes) {
  return Mesh(Group(std::make_shared<FakeEngine>(rank, ranks)), axes);
}

std::string refusal(int ranks, const std::vector<MeshAxis>& axes) {
  return message_of<InvalidArgument>([&] { mesh_of(0, ranks, axes); });
}

TEST(Mesh, KeepsRowMajorOrder) {
  for (int rank = 0; rank < 6; ++rank) {
    const Mesh mesh = mesh_of(rank, 6, {{"pp", 2}, {"dp", 3}});
    EXPECT_EQ(mesh.coordinate("pp"), rank / 3);
    EXPECT_EQ(mesh.coordinate("dp"), rank % 3);
    EXPECT_EQ(mesh.size("pp"), 2);
    EXPECT_EQ(mesh.size("dp"), 3);
    EXPECT_EQ(mesh.rank_at({rank / 3, rank % 3}), rank);
    EXPECT_EQ(mesh.group().rank(), rank);
    EXPECT_EQ(mesh.axes().size(), 2U);
    EXPECT_EQ(mesh.axes()[1].name, "dp");
  }
}

// The ranks of one group have the same place on all other axes, so the same colour.
TEST(Mesh, SplitsOnceForEveryAxis) {
  for (int rank = 0; rank < 6; ++rank) {
    const auto engine = std::make_shared<FakeEngine>(rank, 6);
    const Mesh mesh(Group(engine), {{"pp", 2}, {"dp", 3}});
    EXPECT_EQ(
        engine->splits,
        (std::vector<std::pair<int, int>>{{rank % 3, 0}, {rank / 3, 0}}));
    mesh.join({"pp", "dp"});
    mesh.join({"dp"});
    mesh.join({});
    EXPECT_EQ(
        std::vector(engine->splits.begin() + 2, engine->splits.end()),
        (std::vector<std::pair<int, int>>{{0, 0}, {rank / 3, 0}, {rank, 0}}));
  }
}

TEST(Mesh, MayHaveNoAxesForOneRank) {
  const Mesh mesh = mesh_of(0, 1, {});
  EXPECT_TRUE(mesh.axes().empty());
  EXPECT_EQ(mesh.rank_at({}), 0);
}

TEST(Mesh, RefusesAxesWithoutNamesOfTheirOwn) {
  EXPECT_EQ(
      refusal(2, {{"", 2}}),
      "[comm] expected mesh axes with names of their own, got \"\"; rename it");
  EXPECT_EQ(
      refusal(4, {{"dp", 2}, {"dp", 2}}),
      "[comm] expected mesh axes with names of their own, got \"dp\" twice; rename it");
}

TEST(Mesh, RefusesAnAxisWithoutRanks) {
  EXPECT_EQ(
      refusal(2, {{"dp", 2}, {"tp", 0}}),
      "[comm] expected at least one rank along \"tp\", got 0; give a number above 0");
  EXPECT_EQ(
      refusal(2, {{"tp", -2}, {"dp", -1}}),
      "[comm] expected at least one rank along \"tp\", got -2; give a number above 0");
}

TEST(Mesh, RefusesAxesThatDoNotMultiplyToTheRanks) {
  EXPECT_EQ(
      refusal(8, {{"pp", 2}, {"dp", 3}}),
      "[comm] expected axes whose sizes multiply to 8, the number of ranks, got pp "
      "(2), "
      "dp (3), which makes 6; change a size");
  constexpr int most = std::numeric_limits<int>::max();
  const std::string what = refusal(8, {{"a", most}, {"b", most}, {"c", most}});
  EXPECT_TRUE(testing::contains(what, "multiply to 8"));
  EXPECT_TRUE(testing::contains(what, "which makes 2147483648"));
}

TEST(Mesh, NamesItsAxesForAWrongOne) {
  const Mesh mesh = mesh_of(0, 6, {{"pp", 2}, {"dp", 3}});
  const std::string wanted =
      "[comm] expected a mesh axis out of pp (2), dp (3), got \"tp\"; take one of "
      "these";
  EXPECT_EQ(message_of<InvalidArgument>([&] { mesh["tp"]; }), wanted);
  EXPECT_EQ(message_of<InvalidArgument>([&] { mesh.size("tp"); }), wanted);
  EXPECT_EQ(message_of<InvalidArgument>([&] { mesh.coordinate("tp"); }), wanted);
  EXPECT_EQ(message_of<InvalidArgument>([&] { mesh.join({"pp", "tp"}); }), wanted);
}

TEST(Mesh, RefusesCoordinatesOutside) {
  const Mesh mesh = mesh_of(0, 6, {{"pp", 2}, {"dp", 3}});
  const auto refused = [&](const std::vector<int>& coordinates) {
    return message_of<InvalidArgument>([&] { mesh.rank_at(coordinates); });
  };
  EXPECT_EQ(refused({1}), "[comm] expected 2 coordinates, got 1; give one an axis");
  EXPECT_EQ(
      refused({1, 1, 1}), "[comm] expected 2 coordinates, got 3; give one an axis");
  EXPECT_EQ(
      refused({0, 3}),
      "[comm] expected a coordinate from 0 to 2 on dp, got 3; give one of these");
  EXPECT_EQ(
      refused({-1, 0}),
      "[comm] expected a coordinate from 0 to 1 on pp, got -1; give one of these");
}

TEST(Mesh, RefusesAnEmptyGroup) {
  EXPECT_THROW(Mesh(Group(), {}), InvalidArgument);
}

TEST(MeshRanks, HaveTheRightNeighbours) {
  run_local(6, [](const Group& world) {
    const int rank = world.rank(), pp = rank / 3, dp = rank % 3;
    const Mesh mesh(world, {{"pp", 2}, {"dp", 3}});
    EXPECT_EQ(mesh["pp"].members(), (Members{dp, 3 + dp}));
    EXPECT_EQ(mesh["pp"].rank(), pp);
    EXPECT_EQ(mesh["dp"].members(), (Members{3 * pp, 3 * pp + 1, 3 * pp + 2}));
    EXPECT_EQ(mesh["dp"].rank(), dp);
    // The order of the names does not matter: the mesh has its own.
    for (const auto& axes : {std::vector<std::string>{"pp", "dp"}, {"dp", "pp", "dp"}})
      EXPECT_EQ(mesh.join(axes).members(), (Members{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(mesh.join({}).members(), Members{rank});
  });
}

TEST(MeshRanks, JoinAxesThatAreNotNeighbours) {
  run_local(8, [](const Group& world) {
    const Mesh mesh(world, {{"a", 2}, {"b", 2}, {"c", 2}});
    const int b = 2 * mesh.coordinate("b");
    EXPECT_EQ(mesh.join({"a", "c"}).members(), (Members{b, b + 1, b + 4, b + 5}));
  });
}

// A mesh of a part of the world counts ranks in that part.
TEST(MeshRanks, MayBePartOfAWorld) {
  run_local(5, [](const Group& world) {
    const Group odd = world.split(world.rank() == 0 ? -1 : 0, -world.rank());
    if (!odd)
      return;
    const Mesh mesh(odd, {{"x", 2}, {"y", 2}});
    EXPECT_EQ(mesh.coordinate("x"), (4 - world.rank()) / 2);
    EXPECT_EQ(mesh.rank_at({mesh.coordinate("x"), mesh.coordinate("y")}), odd.rank());
    EXPECT_EQ(mesh["y"].members().size(), 2U);
    EXPECT_GT(mesh["y"].members()[0], mesh["y"].members()[1]);
  });
}

}  // namespace
}  // namespace trireme::comm
