#include "trireme/rpc/call_payload.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::rpc {
namespace {

Values some_values() {
  ValueWriter writer;
  writer.bytes().u64(7);
  writer.tensor(at::arange(6).reshape({2, 3}));
  return writer.take();
}

TEST(CallPayload, ACallComesBackAsItWas) {
  Payload payload = pack_call(
      {.function = "add", .signature = 11, .trace = 12, .span = 13}, some_values());
  EXPECT_GE(bytes_of(payload), 6 * sizeof(std::int64_t));
  const CallHead head = unpack_call_head(payload);
  EXPECT_EQ(head.function, "add");
  EXPECT_EQ(head.signature, 11u);
  EXPECT_EQ(head.trace, 12u);
  EXPECT_EQ(head.span, 13u);
  const Values values = unpack_arguments(std::move(payload), {});
  ValueReader reader(values, "a test");
  EXPECT_EQ(reader.bytes().u64(), 7u);
  EXPECT_TRUE(at::equal(reader.tensor(), at::arange(6).reshape({2, 3})));
  reader.expect_end();
}

TEST(CallPayload, AResultAndAFaultComeBackAsTheyWere) {
  const Values values = unpack_values(pack_values(some_values()), {});
  ASSERT_EQ(values.tensors.size(), 1u);
  EXPECT_TRUE(at::equal(values.tensors[0], at::arange(6).reshape({2, 3})));
  const Fault fault = unpack_fault(pack_fault({.type = "Bad", .text = "luck"}));
  EXPECT_EQ(fault.type, "Bad");
  EXPECT_EQ(fault.text, "luck");
}

TEST(CallPayload, LongFaultsAreCut) {
  const Fault fault = unpack_fault(
      pack_fault({.type = std::string(5000, 't'), .text = std::string(2 << 20, 'x')}));
  EXPECT_EQ(fault.type.size(), 1024u);
  EXPECT_EQ(fault.text.size(), std::size_t{1} << 20);
}

TEST(CallPayload, ReferencesCount) {
  Values values;
  values.references.resize(1000);
  const Payload payload = pack_values(std::move(values));
  EXPECT_EQ(unpack_values(payload, {.references = 1000}).references.size(), 1000u);
  EXPECT_THROW(unpack_values(payload, {.references = 999}), InvalidArgument);
  EXPECT_GT(bytes_of(payload), 20'000u);
  EXPECT_THROW(expect_fits(payload, 20'000, "a test"), InvalidArgument);
  expect_fits(payload, 40'000, "a test");
}

TEST(CallPayload, BytesThatAreCutOrTooManyAreRefused) {
  const Payload whole = pack_call({.function = "add"}, some_values());
  for (std::size_t size = 0; size < whole.bytes.size(); ++size) {
    Payload cut = whole;
    cut.bytes.resize(size);
    EXPECT_THROW(unpack_arguments(std::move(cut), {}), InvalidArgument) << size;
  }
  Payload more = whole;
  more.bytes += "x";
  EXPECT_THROW(unpack_arguments(std::move(more), {}), InvalidArgument);
  Payload less = whole;
  less.parts.clear();
  EXPECT_THROW(unpack_arguments(std::move(less), {}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::rpc
