#include "trireme/rpc/wire_numbers.h"

#include <cmath>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "value_trip.h"

namespace trireme::rpc {
namespace {

using testing::message_of;

enum class Colour : std::uint8_t { Red, Blue = 200 };
enum Unfixed { kOne = 1 };

template <class T>
void expect_limits_to_hold() {
  using Limits = std::numeric_limits<T>;
  for (const T value : {Limits::min(), Limits::max(), T{0}, T{1}})
    EXPECT_EQ(trip(value), value);
  EXPECT_EQ(type_name<T>(), "int");
  if constexpr (sizeof(T) < 8) {
    const auto above = static_cast<std::int64_t>(Limits::max()) + 1;
    const auto below = static_cast<std::int64_t>(Limits::min()) - 1;
    EXPECT_THROW(arrives_as<T>(above), InvalidArgument);
    EXPECT_THROW(arrives_as<T>(below), InvalidArgument);
  }
}

template <class... Types>
void expect_limits_of_all() {
  (expect_limits_to_hold<Types>(), ...);
}

TEST(WireNumbers, WholeNumbersKeepTheirLimits) {
  expect_limits_of_all<
      char,
      signed char,
      unsigned char,
      short,
      unsigned short,
      int,
      unsigned,
      long,
      long long>();
}

TEST(WireNumbers, ANumberThatDoesNotFitIsNamed) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { arrives_as<signed char>(300); }),
      "[rpc] expected an int from -128 to 127 in a test, got 300; take a wider type on "
      "the side that reads, or send what it can hold");
  EXPECT_EQ(
      message_of<InvalidArgument>([] { written(std::uint64_t{1} << 63); }),
      "[rpc] expected an int from -9223372036854775808 to 9223372036854775807 in a "
      "value to send, got 9223372036854775808; take a wider type on the side that "
      "reads, or send what it can hold");
  EXPECT_EQ(trip(std::uint64_t{INT64_MAX}), std::uint64_t{INT64_MAX});
  EXPECT_THROW(arrives_as<std::uint64_t>(-1), InvalidArgument);
}

TEST(WireNumbers, BoolIsNeitherMoreNorLess) {
  EXPECT_TRUE(trip(true));
  EXPECT_FALSE(trip(false));
  EXPECT_EQ(type_name<bool>(), "bool");
  const Values two{.bytes = "\x02"};
  EXPECT_THROW(read_whole<bool>(two), InvalidArgument);
}

TEST(WireNumbers, FloatsKeepTheirBits) {
  using Limits = std::numeric_limits<double>;
  const double odd_nan = std::bit_cast<double>(std::uint64_t{0x7ff8000000001234});
  for (const double value :
       {0.0,
        -0.0,
        0.1,
        Limits::denorm_min(),
        Limits::max(),
        -Limits::infinity(),
        odd_nan})
    EXPECT_EQ(
        std::bit_cast<std::uint64_t>(trip(value)), std::bit_cast<std::uint64_t>(value));
  for (const float value :
       {0.0F, -0.0F, 0.1F, std::numeric_limits<float>::denorm_min(), INFINITY, NAN})
    EXPECT_EQ(
        std::bit_cast<std::uint32_t>(trip(value)), std::bit_cast<std::uint32_t>(value));
  EXPECT_EQ(arrives_as<double>(0.5F), 0.5);
  EXPECT_EQ(arrives_as<float>(0.1), 0.1F);
  EXPECT_EQ(type_name<float>(), "float");
  EXPECT_EQ(type_name<double>(), "float");
}

TEST(WireNumbers, EnumsAreNumbers) {
  EXPECT_EQ(trip(Colour::Blue), Colour::Blue);
  EXPECT_EQ(arrives_as<int>(Colour::Blue), 200);
  EXPECT_EQ(type_name<Colour>(), "int");
  EXPECT_THROW(arrives_as<Colour>(256), InvalidArgument);
  EXPECT_THROW(arrives_as<Colour>(-1), InvalidArgument);
}

TEST(WireNumbers, DurationsKeepTheirTicks) {
  using namespace std::chrono;
  EXPECT_EQ(trip(nanoseconds::min()), nanoseconds::min());
  EXPECT_EQ(trip(milliseconds(-1500)), milliseconds(-1500));
  EXPECT_EQ(arrives_as<nanoseconds>(hours(2)), hours(2));
  EXPECT_EQ(arrives_as<milliseconds>(microseconds(3000)), milliseconds(3));
  EXPECT_EQ(type_name<seconds>(), "duration");
}

TEST(WireNumbers, ADurationThatDoesNotFitIsRefused) {
  using namespace std::chrono;
  EXPECT_EQ(
      message_of<InvalidArgument>([] { arrives_as<milliseconds>(microseconds(1500)); }),
      "[rpc] expected a duration in multiples of 1000000 ns in a test, got 1500000 ns; "
      "take a wider type on the side that reads, or send what it can hold");
  EXPECT_EQ(
      message_of<InvalidArgument>([] { written(milliseconds::max()); }),
      "[rpc] expected a duration below 292 years in a value to send, got "
      "9223372036854775807 ticks; take a wider type on the side that reads, or send "
      "what it can hold");
  using Short = duration<std::int8_t, std::milli>;
  EXPECT_THROW(arrives_as<Short>(milliseconds(128)), InvalidArgument);
  EXPECT_EQ(arrives_as<Short>(milliseconds(127)).count(), 127);
}

static_assert(!Travels<Unfixed>);
static_assert(!Travels<wchar_t> && !Travels<long double>);
static_assert(!Travels<std::chrono::duration<double>>);
static_assert(!Travels<std::chrono::duration<int, std::pico>>);

}  // namespace
}  // namespace trireme::rpc
