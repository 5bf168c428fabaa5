#include "trireme/rpc/wire_type.h"

#include <memory>
#include <string_view>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "value_trip.h"

namespace trireme::rpc {
namespace {

using testing::message_of;

struct Stranger {};

TEST(WireType, StringsOfAnyBytes) {
  for (const std::string& value :
       {std::string(), std::string("a\0b", 3), std::string(70'000, 'x')})
    EXPECT_EQ(trip(value), value);
  EXPECT_EQ(type_name<std::string>(), "string");
  Values cut = written(std::string("abc"));
  cut.bytes.pop_back();
  EXPECT_THROW(read_whole<std::string>(cut), InvalidArgument);
}

TEST(WireType, TensorsPassAsTheyAre) {
  const at::Tensor tensor = at::ones({2, 3});
  EXPECT_TRUE(trip(tensor).is_same(tensor));
  EXPECT_FALSE(trip(at::Tensor()).defined());
  EXPECT_TRUE(written(tensor).bytes.empty());
  EXPECT_EQ(type_name<at::Tensor>(), "tensor");
}

TEST(WireType, ReferencesMayBeEmpty) {
  const Reference reference = lone_reference(5);
  EXPECT_EQ(trip(reference).hold(), reference.hold());
  EXPECT_FALSE(trip(Reference()));
  EXPECT_TRUE(written(Reference()).references.empty());
  EXPECT_EQ(type_name<Reference>(), "ref");
}

TEST(WireType, NothingIsAByte) {
  EXPECT_EQ(written(std::monostate()).bytes.size(), 1u);
  EXPECT_EQ(trip(std::monostate()), std::monostate());
  EXPECT_EQ(type_name<std::monostate>(), "nothing");
  const Values one{.bytes = "\x01"};
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { read_whole<std::monostate>(one); }),
      "[rpc] expected 0 for nothing in a test, got 1; both sides need the same version "
      "of the program");
}

static_assert(Travels<std::string> && Travels<at::Tensor>);
static_assert(!Travels<Stranger> && !Travels<Stranger*>);
static_assert(!Travels<const char*> && !Travels<std::string_view>);
static_assert(!Travels<std::unique_ptr<std::string>>);

}  // namespace
}  // namespace trireme::rpc
