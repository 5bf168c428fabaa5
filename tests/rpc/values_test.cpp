#include "trireme/rpc/values.h"

#include <list>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "value_trip.h"

namespace trireme::rpc {

using testing::message_of;

TEST(Values, TensorsAndReferencesKeepTheirOrder) {
  ValueWriter writer;
  const at::Tensor first = at::ones({2});
  writer.tensor(first);
  writer.bytes().u8(7);
  const Reference reference = lone_reference(3);
  writer.reference(reference);
  writer.tensor({});
  const Values values = writer.take();
  ValueReader reader(values, "a test");
  EXPECT_EQ(reader.bytes().u8(), 7);
  EXPECT_TRUE(reader.tensor().is_same(first));
  EXPECT_FALSE(reader.tensor().defined());
  EXPECT_EQ(reader.reference().hold(), reference.hold());
  reader.expect_end();
}

TEST(Values, AWriterBeginsAnew) {
  ValueWriter writer;
  writer.bytes().u8(1);
  writer.tensor({});
  writer.take();
  const Values again = writer.take();
  EXPECT_TRUE(again.bytes.empty());
  EXPECT_TRUE(again.tensors.empty());
}

TEST(Values, WhatIsMissingIsRefused) {
  const Values none;
  ValueReader reader(none, "a test");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { reader.tensor(); }),
      "[rpc] expected one more tensor in a test, got 0 in all; both sides need the "
      "same version of the program");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { reader.reference(); }),
      "[rpc] expected one more reference in a test, got 0 in all; both sides need the "
      "same version of the program");
}

TEST(Values, WhatIsLeftIsRefused) {
  Values values{.bytes = "x", .tensors = {{}}, .references = {Reference()}};
  ValueReader reader(values, "a test");
  EXPECT_THROW(reader.expect_end(), InvalidArgument);
  reader.bytes().u8();
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { reader.expect_end(); }),
      "[rpc] expected the end of a test, got 1 more tensors and 1 more references; "
      "both sides need the same version of the program");
  reader.tensor();
  EXPECT_THROW(reader.expect_end(), InvalidArgument);
  reader.reference();
  EXPECT_NO_THROW(reader.expect_end());
}

TEST(Values, AListCannotHaveMoreElementsThanAreThere) {
  ValueWriter writer;
  writer.count(3);
  writer.bytes().u8(0);
  writer.tensor({});
  Values values = writer.take();
  {
    ValueReader reader(values, "a test");
    EXPECT_EQ(
        message_of<InvalidArgument>([&] { reader.count(); }),
        "[rpc] expected at most 2 elements in the rest of a test, got a list of 3; "
        "both sides need the same version of the program");
  }
  values.references.emplace_back();
  ValueReader reader(values, "a test");
  EXPECT_EQ(reader.count(), 3u);
}

TEST(Values, CountsAndStringsEndAtFourGigabytes) {
  ValueWriter writer;
  writer.count(0xffffffff);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { writer.count(std::size_t{1} << 32); }),
      "[rpc] expected fewer than 2^32 elements or bytes in a value, got 4294967296; "
      "send large data as tensors");
  // Never read: the length alone is refused.
  const std::string_view large("x", std::size_t{1} << 32);
  EXPECT_THROW(writer.string(large), InvalidArgument);
  EXPECT_EQ(writer.take().bytes.size(), 4u);
}

TEST(Values, StructsStandInsideEachOtherToALimit) {
  int depth = 0;
  std::list<StructDepth> open;
  for (int i = 0; i < StructDepth::kMost; ++i)
    open.emplace_back(depth);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { StructDepth one_more(depth); }),
      "[rpc] expected at most 100 structs inside each other, got more; send a list "
      "instead of a chain");
  open.pop_back();
  EXPECT_NO_THROW(StructDepth one_more(depth));
  open.clear();
  EXPECT_EQ(depth, 0);
}

}  // namespace trireme::rpc
