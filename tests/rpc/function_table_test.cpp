#include "trireme/rpc/function_table.h"

#include <gtest/gtest.h>

#include "trireme/rpc/rref.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

struct Counter {
  int add(int more) { return count += more; }
  int get() const { return count; }
  int count = 0;
};

int text_length(const std::string& text) {
  return static_cast<int>(text.size());
}

TEST(FunctionTable, KnowsSignaturesOfAllThatCanBeCalled) {
  FunctionTable table;
  const Function<double(int, double)> scaled{"scaled"};
  table.add("lambda", [](int, const at::Tensor& t) { return t; })
      .add("plain", text_length)
      .add(scaled, [](int a, double b) { return a * b; })
      .add("nothing", [] {})
      .add("later", [](int a) { return ready_future(std::move(a)); })
      .add("make", [] { return std::make_unique<Counter>(); })
      .method("Counter.add", &Counter::add)
      .method("Counter.get", &Counter::get);
  const auto text = [&](const char* name) { return table.find(name)->signature.text; };
  EXPECT_EQ(text("lambda"), "(int, tensor) -> tensor");
  EXPECT_EQ(text("plain"), "(string) -> int");
  EXPECT_EQ(text("scaled"), "(int, float) -> float");
  EXPECT_EQ(text("nothing"), "() -> nothing");
  EXPECT_EQ(text("later"), "(int) -> int");
  EXPECT_TRUE(testing::contains(text("make"), "() -> object "));
  EXPECT_TRUE(testing::contains(text("Counter.add"), "Counter>, int) -> int"));
  EXPECT_EQ(text("Counter.get"), signature_of<int(RRef<Counter>)>().text);
  EXPECT_EQ(table.find("unknown"), nullptr);
  EXPECT_EQ(table.hint("plian"), "; did you mean plain?");
}

TEST(FunctionTable, FindsTheNamesOfMethods) {
  FunctionTable table;
  table.method("add", &Counter::add).method("get", &Counter::get);
  EXPECT_EQ(table.name_of(&Counter::add), "add");
  EXPECT_EQ(table.name_of(&Counter::get), "get");
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>(
          [] { FunctionTable().name_of(&Counter::add); }),
      "add it by FunctionTable::method() on both sides"));
}

TEST(FunctionTable, RefusesNamesThatCannotBe) {
  FunctionTable table;
  table.add("a_name.of:9-parts", [] {});
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("ä"), std::string(256, 'x')})
    EXPECT_THROW(table.add(name, [] {}), InvalidArgument) << name;
  EXPECT_EQ(
      testing::message_of<InvalidArgument>(
          [&] { table.add("a_name.of:9-parts", [] {}); }),
      "[rpc] expected each function's name once, got a_name.of:9-parts twice; give one "
      "of the "
      "two another name");
}

}  // namespace
}  // namespace trireme::rpc
