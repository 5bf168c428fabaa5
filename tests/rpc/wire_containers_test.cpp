#include "trireme/rpc/wire_containers.h"

#include <limits>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "value_trip.h"

namespace trireme::rpc {
namespace {

using testing::message_of;

TEST(WireContainers, ListsOfLists) {
  const std::vector<std::vector<std::string>> list{{"a", ""}, {}, {"bc"}};
  EXPECT_EQ(trip(list), list);
  const std::vector<std::vector<bool>> bits{{true, false}, {}};
  EXPECT_EQ(trip(bits), bits);
  EXPECT_EQ((type_name<std::vector<std::vector<std::string>>>()), "list<list<string>>");
}

TEST(WireContainers, ListsOfTensorsAndReferences) {
  const std::vector<at::Tensor> tensors{at::ones({1}), at::Tensor(), at::zeros({2})};
  const auto arrived = trip(tensors);
  ASSERT_EQ(arrived.size(), 3u);
  EXPECT_TRUE(arrived[0].is_same(tensors[0]));
  EXPECT_FALSE(arrived[1].defined());
  EXPECT_TRUE(arrived[2].is_same(tensors[2]));
  const std::vector<Reference> references{lone_reference(1), Reference()};
  EXPECT_EQ(trip(references)[0].hold(), references[0].hold());
  EXPECT_EQ(type_name<std::vector<at::Tensor>>(), "list<tensor>");
}

TEST(WireContainers, ArraysAreListsOfTheirLength) {
  const std::array<int, 3> numbers{1, 2, 3};
  const std::array<bool, 3> bits{true, false, true};
  const std::array<std::string, 2> words{"a", "b"};
  EXPECT_EQ(trip(numbers), numbers);
  EXPECT_EQ(trip(bits), bits);
  EXPECT_EQ(trip(words), words);
  EXPECT_EQ((trip(std::array<int, 0>())), (std::array<int, 0>()));
  EXPECT_EQ(arrives_as<std::vector<int>>(numbers), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ((arrives_as<std::array<int, 3>>(std::vector<int>{1, 2, 3})), numbers);
  EXPECT_EQ((type_name<std::array<int, 3>>()), "list<int>");
  EXPECT_EQ(
      (message_of<InvalidArgument>([&] { arrives_as<std::array<int, 2>>(numbers); })),
      "[rpc] expected a list of 2 elements in a test, got 3; send as many as the array "
      "has, or read into a vector");
  EXPECT_THROW((arrives_as<std::array<bool, 4>>(bits)), InvalidArgument);
  EXPECT_THROW((arrives_as<std::array<std::string, 1>>(words)), InvalidArgument);
}

TEST(WireContainers, OptionalsTuplesAndPairs) {
  using Mixed = std::tuple<int, std::optional<std::string>, std::pair<bool, double>>;
  const Mixed full{1, "one", {true, 0.5}};
  const Mixed empty{2, std::nullopt, {false, -0.5}};
  EXPECT_EQ(trip(full), full);
  EXPECT_EQ(trip(empty), empty);
  EXPECT_EQ(type_name<Mixed>(), "tuple<int, optional<string>, tuple<bool, float>>");
  const std::tuple<std::tuple<int>> nested{std::tuple<int>(4)};
  EXPECT_EQ(trip(nested), nested);
  const std::optional<std::optional<int>> inner{std::optional<int>()};
  EXPECT_EQ(trip(inner), inner);
  EXPECT_EQ((arrives_as<std::tuple<int, int>>(std::pair(1, 2))), std::tuple(1, 2));
}

TEST(WireContainers, TuplesAreReadFromLeftToRight) {
  const std::tuple<at::Tensor, int, at::Tensor, int> tuple{
      at::ones({1}), 1, at::ones({2}), 2};
  const auto arrived = trip(tuple);
  EXPECT_TRUE(std::get<0>(arrived).is_same(std::get<0>(tuple)));
  EXPECT_EQ(std::get<1>(arrived), 1);
  EXPECT_TRUE(std::get<2>(arrived).is_same(std::get<2>(tuple)));
  EXPECT_EQ(std::get<3>(arrived), 2);
}

TEST(WireContainers, Maps) {
  const std::map<std::string, std::vector<int>> sorted{{"a", {1}}, {"b", {}}};
  const std::unordered_map<int, std::map<int, bool>> hashed{{1, {{2, true}}}, {3, {}}};
  EXPECT_EQ(trip(sorted), sorted);
  EXPECT_EQ(trip(hashed), hashed);
  using Hashed = std::unordered_map<std::string, std::vector<int>>;
  EXPECT_EQ(arrives_as<Hashed>(sorted), Hashed(sorted.begin(), sorted.end()));
  EXPECT_EQ(
      (type_name<std::map<std::string, std::vector<int>>>()), "map<string, list<int>>");
  EXPECT_EQ((type_name<std::unordered_map<int, bool>>()), "map<int, bool>");
}

TEST(WireContainers, AKeyTwiceIsRefused) {
  const std::vector<std::pair<int, int>> twice{{1, 2}, {1, 3}};
  EXPECT_EQ(
      (message_of<InvalidArgument>([&] { arrives_as<std::map<int, int>>(twice); })),
      "[rpc] expected each key of a map once in a test, got one twice; both sides need "
      "to agree when two keys are the same");
  EXPECT_THROW((arrives_as<std::unordered_map<int, int>>(twice)), InvalidArgument);
}

TEST(WireContainers, AListThatClaimsTooMuchCostsNoMemory) {
  ValueWriter writer;
  writer.count(1000);
  Values values = writer.take();
  EXPECT_THROW(read_whole<std::vector<std::string>>(values), InvalidArgument);
  // As many bytes as elements, but no element is a byte.
  values.bytes += std::string(1000, '\xff');
  EXPECT_THROW(read_whole<std::vector<std::string>>(values), InvalidArgument);
  struct Large {
    char bytes[4096];
  };
  EXPECT_EQ(early_places<Large>(1 << 20), 17u);
  EXPECT_EQ(early_places<char>(100), 100u);
}

TEST(WireContainers, CutBytesAreRefused) {
  using Mixed = std::tuple<
      std::vector<int>,
      std::map<std::string, std::optional<bool>>,
      std::array<double, 2>>;
  const Values whole =
      written(Mixed{{1, 2}, {{"a", true}, {"b", std::nullopt}}, {1, 2}});
  for (std::size_t size = 0; size < whole.bytes.size(); ++size) {
    const Values cut{.bytes = whole.bytes.substr(0, size)};
    EXPECT_THROW(read_whole<Mixed>(cut), InvalidArgument) << size;
  }
}

TEST(WireContainers, FlippedBytesAreRefusedOrRead) {
  using Mixed = std::tuple<
      std::vector<std::uint16_t>,
      std::vector<std::vector<std::string>>,
      std::vector<bool>,
      std::map<int, bool>>;
  const Values whole =
      written(Mixed{{1, 2}, {{"a"}, {"b", "c"}}, {true, false}, {{1, true}}});
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * whole.bytes.size(); ++bit) {
    Values damaged = whole;
    damaged.bytes[bit / 8] = static_cast<char>(damaged.bytes[bit / 8] ^ 1 << bit % 8);
    try {
      read_whole<Mixed>(damaged);
    } catch (const InvalidArgument&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace trireme::rpc
