#include "trireme/rpc/function_table.h"

#include <gtest/gtest.h>

#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using testing::contains;
using testing::message_of;

struct Lamp {
  bool on() const { return lit; }
  void turn(bool to) { lit = to; }
  void other(bool) {}
  bool lit = false;
};

TEST(FunctionTable, FindsWhatWasAdded) {
  FunctionTable functions;
  functions.add("one", [] { return 1; }).add("two.of:them-all_2", [](int) {});
  ASSERT_NE(functions.find("one"), nullptr);
  EXPECT_EQ(functions.find("one")->signature.text, "() -> int");
  EXPECT_EQ(functions.find("two.of:them-all_2")->signature.text, "(int) -> nothing");
  EXPECT_EQ(functions.find("three"), nullptr);
}

TEST(FunctionTable, NamesThatCannotBe) {
  FunctionTable functions;
  for (const std::string& name :
       {std::string(),
        std::string("a b"),
        std::string("ä"),
        std::string("a\0b", 3),
        std::string(256, 'x')})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { functions.add(name, [] {}); }),
        "expected 1 to 255 letters, digits and \"_.:-\" for a function's name"));
  functions.add(std::string(255, 'x'), [] {});
}

TEST(FunctionTable, NamesThatAreTaken) {
  FunctionTable functions;
  functions.add("same", [] {});
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { functions.add("same", [](int) {}); }),
      "expected each function's name once, got same twice"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { functions.method("same", &Lamp::on); }),
      "got same twice"));
  EXPECT_EQ(functions.find("same")->signature.text, "() -> nothing");
}

TEST(FunctionTable, MethodsHaveTheirNames) {
  FunctionTable functions;
  functions.method("lamp.on", &Lamp::on).method("lamp.turn", &Lamp::turn);
  EXPECT_EQ(functions.name_of(&Lamp::on), "lamp.on");
  EXPECT_EQ(functions.name_of(&Lamp::turn), "lamp.turn");
  // Of the same type as one that is there.
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { functions.name_of(&Lamp::other); }),
      "expected a method that stands in the table of functions"));
  EXPECT_TRUE(
      contains(functions.find("lamp.turn")->signature.text, "Lamp>, bool) -> "));
}

// A method that could not be added has no name: calls by it are refused here.
TEST(FunctionTable, AMethodThatWasRefusedHasNoName) {
  FunctionTable functions;
  functions.add("lamp.on", [] {});
  EXPECT_THROW(functions.method("lamp.on", &Lamp::on), InvalidArgument);
  EXPECT_THROW(functions.name_of(&Lamp::on), InvalidArgument);
}

TEST(FunctionTable, HintsAtNamesThatAreNear) {
  FunctionTable functions;
  functions.add("forward", [] {}).add("backward", [] {});
  EXPECT_TRUE(contains(functions.hint("forwrad"), "did you mean forward"));
  EXPECT_EQ(functions.hint("qqqqqqqqqqq"), "");
}

}  // namespace
}  // namespace trireme::rpc
