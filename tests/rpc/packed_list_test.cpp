#include "trireme/rpc/packed_list.h"

#include <limits>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/rpc/wire_containers.h"
#include "trireme/testing/message.h"
#include "value_trip.h"

namespace trireme::rpc {
namespace {

using testing::message_of;

enum class Shade : std::int16_t { Dark = -5, Light = 5 };

template <class T>
void expect_packed() {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> list{Limits::lowest(), 0, 1, Limits::max()};
  EXPECT_EQ(trip(list), list);
  EXPECT_EQ(written(list).bytes.size(), 1 + 4 + 4 * sizeof(T));
  EXPECT_EQ(trip(std::vector<T>()), std::vector<T>());
}

/// Lists of each type arrive as lists of each.
template <class... Types>
void expect_all_widths() {
  const auto send_as = []<class From>(From) {
    const std::vector<From> list{0, 1, 100};
    const auto arrives = [&]<class To>(To) {
      EXPECT_EQ(arrives_as<std::vector<To>>(list), (std::vector<To>{0, 1, 100}));
    };
    (arrives(Types{}), ...);
    expect_packed<From>();
  };
  (send_as(Types{}), ...);
}

TEST(PackedList, NumbersTakeTheirBytesAndArriveInAnyWidth) {
  expect_all_widths<
      char,
      std::int8_t,
      std::uint8_t,
      std::int16_t,
      std::uint16_t,
      std::int32_t,
      std::uint32_t,
      std::int64_t>();
  expect_all_widths<float, double>();
  EXPECT_EQ(
      arrives_as<std::vector<std::uint64_t>>(std::vector<int>{1}),
      std::vector<std::uint64_t>{1});
}

TEST(PackedList, ANumberThatDoesNotFitIsRefused) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] {
        arrives_as<std::vector<std::int8_t>>(std::vector<int>{1, 128});
      }),
      "[rpc] expected an int from -128 to 127 in a test, got 128; take a wider type on "
      "the side that reads, or send what it can hold");
  EXPECT_THROW(
      arrives_as<std::vector<std::uint8_t>>(std::vector<std::int8_t>{-1}),
      InvalidArgument);
  EXPECT_THROW(
      arrives_as<std::vector<std::uint64_t>>(std::vector<std::int64_t>{-1}),
      InvalidArgument);
}

TEST(PackedList, LargeUnsignedNumbersAreRefusedBeforeTheyAreSent) {
  const std::vector<std::uint64_t> fits{0, INT64_MAX};
  EXPECT_EQ(trip(fits), fits);
  EXPECT_THROW(
      written(std::vector<std::uint64_t>{1, std::uint64_t{1} << 63}), InvalidArgument);
}

TEST(PackedList, FloatsAreWidenedAndRounded) {
  EXPECT_EQ(
      arrives_as<std::vector<double>>(std::vector<float>{0.5F, -2}),
      (std::vector<double>{0.5, -2}));
  EXPECT_EQ(
      arrives_as<std::vector<float>>(std::vector<double>{0.1}),
      std::vector<float>{0.1F});
}

TEST(PackedList, EnumsTakeTheirWidth) {
  const std::vector<Shade> shades{Shade::Dark, Shade::Light};
  EXPECT_EQ(trip(shades), shades);
  EXPECT_EQ(written(shades).bytes.size(), 1u + 4 + 2 * 2);
  EXPECT_EQ(arrives_as<std::vector<int>>(shades), (std::vector<int>{-5, 5}));
  EXPECT_EQ(arrives_as<std::vector<Shade>>(std::vector<int>{-5, 5}), shades);
  EXPECT_THROW(
      arrives_as<std::vector<Shade>>(std::vector<int>{40'000}), InvalidArgument);
}

TEST(PackedList, BoolTakesABit) {
  for (const std::size_t size : {0u, 1u, 7u, 8u, 9u, 1000u}) {
    std::vector<bool> bits(size);
    for (std::size_t i = 0; i < size; ++i)
      bits[i] = i % 3 == 0;
    EXPECT_EQ(trip(bits), bits) << size;
    EXPECT_EQ(written(bits).bytes.size(), 1 + 4 + 4 + (size + 7) / 8);
  }
}

TEST(PackedList, AnotherKindIsRefused) {
  const Values ints = written(std::vector<int>{1});
  const Values floats = written(std::vector<float>{1});
  const Values bits = written(std::vector<bool>{true});
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { read_whole<std::vector<int>>(floats); }),
      "[rpc] expected a list of int in a test, got one of float; both sides need the "
      "same version of the program");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { read_whole<std::vector<double>>(ints); }),
      "[rpc] expected a list of float in a test, got one of int; both sides need the "
      "same version of the program");
  EXPECT_THROW(read_whole<std::vector<Shade>>(floats), InvalidArgument);
  EXPECT_THROW(read_whole<std::vector<int>>(bits), InvalidArgument);
  EXPECT_THROW(read_whole<std::vector<bool>>(ints), InvalidArgument);
}

TEST(PackedList, DamagedBlocksAreRefused) {
  Values unknown = written(std::vector<int>{1});
  unknown.bytes[0] = 11;
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { read_whole<std::vector<int>>(unknown); }),
      "[rpc] expected a known form of numbers in a test, got number 11; both sides "
      "need the same version of the program");
  Values uneven = written(std::vector<std::int8_t>{1, 2, 3});
  uneven.bytes[0] = static_cast<char>(NumberForm::I16);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { read_whole<std::vector<int>>(uneven); }),
      "[rpc] expected whole numbers of 2 bytes in a test, got 3 bytes; both sides need "
      "the same version of the program");
  Values few = written(std::vector<bool>(9, true));
  few.bytes[1] = 17;
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { read_whole<std::vector<bool>>(few); }),
      "[rpc] expected 3 bytes for 17 bool in a test, got 2; both sides need the same "
      "version of the program");
  Values cut = written(std::vector<int>{1, 2});
  cut.bytes.pop_back();
  EXPECT_THROW(read_whole<std::vector<int>>(cut), InvalidArgument);
}

}  // namespace
}  // namespace trireme::rpc
