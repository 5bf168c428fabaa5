#include "trireme/rpc/wire_struct.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/rpc/wire_containers.h"
#include "trireme/testing/message.h"
#include "value_trip.h"

namespace trireme::rpc {
namespace {

struct Point {
  int x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
};
// Another program's idea of the same struct.
struct NewPoint {
  int x = 0;
  double y = 0;
};
struct Place {
  int x = 0;
  double y = 0;
};
struct Path {
  std::string name;
  std::vector<Point> points;
  at::Tensor weights;
  std::optional<Point> end;
  bool hidden = false;  // does not travel
};
struct Tree {
  int value = 0;
  std::vector<Tree> children;
};
struct Base {
  int base = 0;
};
struct Derived : Base {
  int own = 0;
};
struct Even {
  int number = 0;
};
struct Nobody {};

}  // namespace

template <>
struct Fields<Point> {
  static constexpr auto name = "Point";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&Point::x, &Point::y);
};
template <>
struct Fields<NewPoint> {
  static constexpr auto name = "Point";
  static constexpr int version = 2;
  static constexpr auto members = std::tuple(&NewPoint::x, &NewPoint::y);
};
template <>
struct Fields<Place> {
  static constexpr auto name = "Place";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&Place::x, &Place::y);
};
template <>
struct Fields<Path> {
  static constexpr auto name = "Path";
  static constexpr int version = 3;
  static constexpr auto members =
      std::tuple(&Path::name, &Path::points, &Path::weights, &Path::end);
};
template <>
struct Fields<Tree> {
  static constexpr auto name = "Tree";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&Tree::value, &Tree::children);
};
template <>
struct Fields<Derived> {
  static constexpr auto name = "Derived";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&Derived::base, &Derived::own);
};
template <>
struct Fields<Even> {
  static constexpr auto name = "Even";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&Even::number);
  static void check(const Even& even) {
    if (even.number % 2 != 0)
      throw InvalidArgument(
          "[rpc] expected an even number, got an odd one; send others");
  }
};
template <>
struct Fields<Nobody> {
  static constexpr auto name = "Nobody";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple();
};

namespace {

using testing::message_of;

Tree chain(int length) {
  Tree tree{.value = length};
  if (length > 1)
    tree.children.push_back(chain(length - 1));
  return tree;
}

TEST(WireStruct, MembersTravel) {
  const Point point{3, 0.5};
  EXPECT_EQ(trip(point), point);
  EXPECT_EQ(type_name<Point>(), "Point v1");
  const std::vector<Point> points{{1, 2}, {3, 4}};
  EXPECT_EQ(trip(points), points);
  EXPECT_EQ((type_name<std::map<int, Point>>()), "map<int, Point v1>");
}

TEST(WireStruct, StructsStandInsideStructs) {
  const Path path{
      .name = "way",
      .points = {{1, 2}, {3, 4}},
      .weights = at::ones({2}),
      .end = Point{5, 6},
      .hidden = true};
  const Path arrived = trip(path);
  EXPECT_EQ(arrived.name, path.name);
  EXPECT_EQ(arrived.points, path.points);
  EXPECT_TRUE(arrived.weights.is_same(path.weights));
  EXPECT_EQ(arrived.end, path.end);
  EXPECT_FALSE(arrived.hidden);
}

TEST(WireStruct, MembersOfABaseTravel) {
  Derived derived;
  derived.base = 1;
  derived.own = 2;
  const Derived arrived = trip(derived);
  EXPECT_EQ(arrived.base, 1);
  EXPECT_EQ(arrived.own, 2);
}

TEST(WireStruct, AStructWithoutMembersTravels) {
  EXPECT_EQ(trip(std::vector<Nobody>(3)).size(), 3u);
}

TEST(WireStruct, AnotherVersionIsRefused) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { arrives_as<NewPoint>(Point()); }),
      "[rpc] expected Point version 2 in a test, got version 1; build both sides from "
      "the same version of the program");
}

TEST(WireStruct, AnotherStructIsRefused) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { arrives_as<Place>(Point()); }),
      "[rpc] expected Place version 1 in a test, got \"Point\"; both sides need the "
      "same version of the program");
}

TEST(WireStruct, ACheckRefusesWhatMustNotBe) {
  EXPECT_EQ(trip(Even{4}).number, 4);
  EXPECT_EQ(
      message_of<InvalidArgument>([] { trip(Even{3}); }),
      "[rpc] expected an even number, got an odd one; send others");
}

TEST(WireStruct, TreesTravelToALimit) {
  Tree deepest = trip(chain(StructDepth::kMost));
  int depth = 1;
  for (const Tree* tree = &deepest; !tree->children.empty(); ++depth)
    tree = &tree->children[0];
  EXPECT_EQ(depth, StructDepth::kMost);
  EXPECT_THROW(written(chain(StructDepth::kMost + 1)), InvalidArgument);
  // A list is no chain.
  EXPECT_EQ(trip(Tree{.children = std::vector<Tree>(500)}).children.size(), 500u);
}

TEST(WireStruct, ForgedDepthCannotExhaustTheStack) {
  ValueWriter writer;
  for (int i = 0; i < 200'000; ++i) {
    writer.string("Tree");
    writer.bytes().u32(1).i64(0).u32(1);
  }
  const Values forged = writer.take();
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { read_whole<Tree>(forged); }),
      "[rpc] expected at most 100 structs inside each other, got more; send a list "
      "instead of a chain");
}

TEST(WireStruct, CutBytesAreRefused) {
  const Values whole = written(std::vector<Point>{{1, 2}});
  for (std::size_t size = 0; size < whole.bytes.size(); ++size)
    EXPECT_THROW(
        read_whole<std::vector<Point>>({.bytes = whole.bytes.substr(0, size)}),
        InvalidArgument)
        << size;
}

}  // namespace
}  // namespace trireme::rpc
