#include "trireme/rpc/value_place.h"

#include <gtest/gtest.h>

#include "trireme/rpc/references.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using testing::contains;
using testing::message_of;

struct Boat {
  int length = 0;
};

KeptValue kept_boat() {
  return {
      .value = std::make_shared<Boat>(Boat{.length = 7}), .type = &value_type<Boat>()};
}

TEST(ValuePlace, GivesTheValueAsItsType) {
  ValuePlace place;
  EXPECT_FALSE(place.future().ready());
  place.set(kept_boat());
  EXPECT_EQ(value_as<Boat>(place.future().get())->length, 7);
}

TEST(ValuePlace, OfAnotherTypeIsRefused) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { value_as<int>(kept_boat()); }),
      "expected a reference to a value of type int, got one of type "));
}

TEST(ValuePlace, KeepsTheErrorOfWhatWasNotMade) {
  ValuePlace place;
  place.fail(std::make_exception_ptr(std::runtime_error("no wood")));
  EXPECT_EQ(message_of<std::runtime_error>([&] { place.future().get(); }), "no wood");
}

TEST(ValuePlace, OneThatGoesWithoutAValueIsAnError) {
  Future<KeptValue> future;
  {
    const ValuePlace place;
    future = place.future();
  }
  EXPECT_TRUE(contains(
      message_of<Error>([&] { future.get(); }), "expected a promise to be kept"));
}

TEST(ValuePlace, TypesSayHowTheyTravel) {
  EXPECT_EQ(value_type<int>().name, "int");
  EXPECT_NE(value_type<int>().write, nullptr);
  EXPECT_TRUE(contains(value_type<Boat>().name, "Boat"));
  EXPECT_EQ(value_type<Boat>().write, nullptr);
}

// Numbers of all widths have one name on their way; in memory they differ.
TEST(ValuePlace, TypesOfOneNameAreNotMixedUp) {
  using Floats = std::vector<float>;
  using Doubles = std::vector<double>;
  const KeptValue floats{
      .value = std::make_shared<Floats>(Floats{1, 2, 3}),
      .type = &value_type<Floats>()};
  EXPECT_EQ(value_type<Floats>().name, value_type<Doubles>().name);
  const std::string message =
      message_of<InvalidArgument>([&] { value_as<Doubles>(floats); });
  EXPECT_TRUE(contains(message, "std::vector<double")) << message;
  EXPECT_TRUE(contains(message, "got one of type std::vector<float")) << message;
  EXPECT_EQ(copy_as<Doubles>(floats), (Doubles{1, 2, 3}));
  EXPECT_EQ(copy_as<Floats>(floats), (Floats{1, 2, 3}));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { copy_as<std::string>(floats); }),
      "of type string, got one of type "));
  const KeptValue large{
      .value = std::make_shared<std::int64_t>(std::int64_t{1} << 40),
      .type = &value_type<std::int64_t>()};
  EXPECT_EQ(copy_as<std::int64_t>(large), std::int64_t{1} << 40);
  EXPECT_THROW(copy_as<int>(large), InvalidArgument);
}

TEST(ValuePlace, IsFoundBehindAReferenceOfItsOwner) {
  const auto releases = std::make_shared<Releases>();
  References owner(1, 100, releases), user(2, 100, releases);
  const auto place = std::make_shared<ValuePlace>();
  const Reference own = owner.own(place);
  EXPECT_EQ(place_of(own), place);
  Consequences then;
  const Reference there = user.arrive(1, owner.send(own, 2), then);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { place_of(there); }),
      "expected a reference to a value of this worker, got one of worker 1"));
  user.forget(1, "it sank", then);
  EXPECT_TRUE(contains(
      message_of<PeerError>([&] { place_of(there); }),
      "of worker 1 to be there, got its loss (it sank); make it anew"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { place_of(Reference()); }), "got an empty one"));
}

}  // namespace
}  // namespace trireme::rpc
