#include "trireme/rpc/tensor_record.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "forged_record.h"
#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using testing::contains;
using testing::message_of;

constexpr int kAnyFlags =
    kIsDefined | kRequiresGrad | kHasStrides | kIsSparse | kIsCoalesced;

TensorDims read_forged(const ForgedRecord& forged, TensorRecord* out = nullptr) {
  net::ByteWriter head;
  forged.write(head);
  net::ByteReader reader(head.bytes(), "a test");
  const TensorRecord record = read_tensor_record(reader, kAnyFlags);
  if (out != nullptr)
    *out = record;
  TensorDims strides = read_tensor_strides(reader, record);
  reader.expect_end();
  return strides;
}

std::string refusal_of_record(const ForgedRecord& forged) {
  return message_of<InvalidArgument>([&] { read_forged(forged); });
}

TEST(TensorRecord, SaysWhatWasWritten) {
  TensorRecord record;
  const TensorDims strides = read_forged(
      {.flags = kIsDefined | kHasStrides | kRequiresGrad,
       .dtype = at::kHalf,
       .sizes = {2, 1, 3},
       .strides = {1, 6, 2}},
      &record);
  EXPECT_EQ(record.flags, kIsDefined | kHasStrides | kRequiresGrad);
  EXPECT_EQ(record.dtype, at::kHalf);
  EXPECT_EQ(record.sizes, (TensorDims{2, 1, 3}));
  EXPECT_EQ(record.numel, 6);
  EXPECT_EQ(strides, (TensorDims{1, 6, 2}));
  EXPECT_TRUE(read_forged({.sizes = {5, 0}}, &record).empty());
  EXPECT_EQ(record.numel, 0);
  EXPECT_TRUE(read_forged({}, &record).empty());
  EXPECT_EQ(record.numel, 1);
}

TEST(TensorRecord, FlagsThatAreNotAllowedAreRefused) {
  net::ByteReader reader("\x09", "a test");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { read_tensor_record(reader, kIsDefined); }),
      "[rpc] expected known flags of a tensor in a message, got 9; the bytes are "
      "damaged, or of another version");
}

TEST(TensorRecord, SizesThatCannotBeAreRefused) {
  EXPECT_TRUE(contains(
      refusal_of_record({.sizes = {-1}}),
      "[rpc] expected sizes of a tensor in a message, got a negative one, -1; the "
      "bytes are damaged, or of another version"));
  constexpr std::int64_t huge = std::int64_t{1} << 32;
  EXPECT_TRUE(
      contains(refusal_of_record({.sizes = {huge, huge}}), "more elements than"));
  // Times zero is no excuse: strides would overflow.
  EXPECT_TRUE(
      contains(refusal_of_record({.sizes = {huge, huge, 0}}), "more elements than"));
}

TEST(TensorRecord, StridesThatLeaveTheMemoryAreRefused) {
  const auto refusal = [](std::vector<std::int64_t> strides) {
    return refusal_of_record(
        {.flags = kIsDefined | kHasStrides, .sizes = {2, 1, 3}, .strides = strides});
  };
  EXPECT_EQ(
      refusal({4, 1, 1}),
      "[rpc] expected strides without gaps for sizes [2, 1, 3] in a message, got [4, "
      "1, 1]; the bytes are damaged, or of another version");
  EXPECT_TRUE(contains(refusal({0, 1, 1}), "without gaps"));
  EXPECT_TRUE(contains(refusal({1, 1, 1}), "without gaps"));
  EXPECT_TRUE(contains(refusal({-3, 1, 1}), "without gaps"));
  EXPECT_TRUE(contains(refusal({3, 7, 1}), "without gaps"));
  EXPECT_TRUE(contains(refusal({3, -1, 1}), "without gaps"));
  EXPECT_TRUE(contains(refusal({INT64_MAX, 1, INT64_MAX}), "without gaps"));
  EXPECT_TRUE(contains(
      refusal_of_record(
          {.flags = kIsDefined | kHasStrides, .sizes = {0}, .strides = {1}}),
      "without gaps"));
}

TEST(TensorRecord, UnknownDtypesAndFlagsAreRefused) {
  EXPECT_TRUE(contains(
      refusal_of_record({.dtype = at::kQInt8, .sizes = {1}}),
      "expected a known dtype in a message, got number 12;"));
  EXPECT_TRUE(contains(
      refusal_of_record({.dtype = static_cast<at::ScalarType>(-1), .sizes = {1}}),
      "got number 255;"));
  EXPECT_TRUE(contains(
      refusal_of_record({.flags = 0x20 | kIsDefined}),
      "expected known flags of a tensor in a message, got 33;"));
  EXPECT_TRUE(contains(
      refusal_of_record({.flags = kRequiresGrad}), "expected flags of a tensor"));
  EXPECT_TRUE(contains(
      refusal_of_record({.flags = kIsDefined | kIsCoalesced}),
      "expected flags of a tensor"));
  EXPECT_TRUE(contains(
      refusal_of_record({.flags = kIsDefined | kIsSparse | kHasStrides}),
      "expected flags of a tensor"));
  EXPECT_TRUE(contains(
      refusal_of_record({.flags = kIsDefined | kRequiresGrad, .dtype = at::kLong}),
      "expected a dtype that can require gradients in a message, got Long;"));
  EXPECT_TRUE(contains(
      refusal_of_record({.sizes = std::vector<std::int64_t>(65, 1)}),
      "expected at most 64 dims in a message, got 65;"));
}

}  // namespace
}  // namespace trireme::rpc
