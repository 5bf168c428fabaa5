#include "trireme/rpc/value_place.h"

#include <gtest/gtest.h>

#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

struct Untravelled {};

Reference reference_to(std::shared_ptr<void> cargo, const std::string& loss = "") {
  auto lost = std::make_shared<Loss>();
  if (!loss.empty())
    lost->set(loss);
  return Reference(std::make_shared<Hold>(
      Hold::Facts{
          .id = {2, 3}, .owner = 2, .fork = 1, .cargo = std::move(cargo), .loss = lost},
      std::make_shared<Releases>()));
}

TEST(ValuePlace, TypesHaveNamesBeTheyTravelOrNot) {
  EXPECT_EQ(value_type<std::vector<int>>().name, "list<int>");
  EXPECT_NE(value_type<int>().write, nullptr);
  EXPECT_EQ(
      value_type<Untravelled>().name,
      "trireme::rpc::(anonymous namespace)::Untravelled");
  EXPECT_EQ(value_type<Untravelled>().write, nullptr);
}

TEST(ValuePlace, AValueIsWhatItWasKeptAs) {
  const KeptValue kept{.value = std::make_shared<int>(7), .type = &value_type<int>()};
  EXPECT_EQ(*value_as<int>(kept), 7);
  EXPECT_EQ(
      testing::message_of<InvalidArgument>([&] { value_as<double>(kept); }),
      "[rpc] expected a reference to a value of type float, got one of type int; take "
      "the RRef "
      "of the type that the function gives");
}

TEST(ValuePlace, WaitsForItsValue) {
  ValuePlace place;
  EXPECT_FALSE(place.future().ready());
  place.set({.value = std::make_shared<int>(7), .type = &value_type<int>()});
  EXPECT_EQ(*value_as<int>(place.future().get()), 7);
  ValuePlace failed;
  failed.fail(std::make_exception_ptr(std::runtime_error("no")));
  EXPECT_THROW(failed.future().get(), std::runtime_error);
}

TEST(ValuePlace, IsBehindReferencesOnTheirOwner) {
  const auto place = std::make_shared<ValuePlace>();
  EXPECT_EQ(place_of(reference_to(place)), place);
  EXPECT_THROW(place_of(Reference()), InvalidArgument);
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([] { place_of(reference_to(nullptr)); }),
      "got one of worker 2; call its owner"));
  try {
    place_of(reference_to(nullptr, "it burned"));
    ADD_FAILURE() << "it should throw";
  } catch (const PeerError& error) {
    EXPECT_EQ(error.rank(), 2);
    EXPECT_TRUE(testing::contains(
        error.what(), "value 2.3 of worker 2 to be there, but it is lost: it burned"));
  }
}

}  // namespace
}  // namespace trireme::rpc
