// Every kernel of every instruction set against a plain loop, bit for bit.
#include "trireme/comm/reduce_kernel.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using c10::ScalarType;
using testing::message_of;

const std::vector<ReduceOp> kOps = {
    ReduceOp::Sum,
    ReduceOp::Mean,
    ReduceOp::Min,
    ReduceOp::Max,
    ReduceOp::Product,
    ReduceOp::BitAnd,
    ReduceOp::BitOr};
const std::vector<size_t> kCounts = {
    0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 65, 127, 1000};
const std::vector<int> kSources = {1, 2, 3, 5, 8};

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::Baseline, Isa::Avx2, Isa::Avx512})
    if (isa <= best_isa())
      found.push_back(isa);
  return found;
}

// ---- the plain loop
// --------------------------------------------------------------------

template <class T>
struct Arithmetic {
  using Wide = T;
};
template <>
struct Arithmetic<c10::Half> {
  using Wide = float;
};
template <>
struct Arithmetic<c10::BFloat16> {
  using Wide = float;
};

template <class W>
W plain_step(ReduceOp op, W a, W b) {
  if (op == ReduceOp::Min)
    return a < b || a != a ? a : b;
  if (op == ReduceOp::Max)
    return a > b || a != a ? a : b;
  if constexpr (std::is_integral_v<W>) {
    // 64 bits without a sign, cut down to the dtype: wraps for every width.
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    if (op == ReduceOp::BitAnd)
      return static_cast<W>(x & y);
    if (op == ReduceOp::BitOr)
      return static_cast<W>(x | y);
    return static_cast<W>(op == ReduceOp::Product ? x * y : x + y);
  } else {
    return op == ReduceOp::Product ? a * b : a + b;
  }
}

template <class T>
std::vector<T> plain(ReduceOp op, const std::vector<const T*>& in, size_t count) {
  using Wide = typename Arithmetic<T>::Wide;
  std::vector<T> out(count);
  for (size_t i = 0; i < count; ++i) {
    Wide value = static_cast<Wide>(in[0][i]);
    for (size_t k = 1; k < in.size(); ++k)
      value = plain_step<Wide>(op, value, static_cast<Wide>(in[k][i]));
    if constexpr (std::is_floating_point_v<Wide>) {
      if (op == ReduceOp::Mean)
        value = value / static_cast<Wide>(in.size());
    }
    out[i] = static_cast<T>(value);
  }
  return out;
}

// The same bits, or NaN in both: which NaN is up to the processor.
template <class T>
bool same_value(const T& a, const T& b) {
  if (std::memcmp(&a, &b, sizeof a) == 0)
    return true;
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(static_cast<double>(a)) && std::isnan(static_cast<double>(b));
}

// ---- the comparison
// --------------------------------------------------------------------

// Any bits for the dtype: with floats that is every kind of number.
template <class T>
std::vector<T> any_values(size_t count, std::mt19937_64& random) {
  std::vector<T> values(count);
  for (T& value : values) {
    uint64_t bits = random();
    // Half of the floats near one, so that sums have digits to round.
    if constexpr (!std::is_integral_v<T>) {
      if (bits % 2 == 0) {
        value = static_cast<T>(
            static_cast<float>(static_cast<int64_t>(bits >> 40) - (1 << 23)) /
            65536.0F);
        continue;
      }
      bits = random();
    }
    std::memcpy(&value, &bits, sizeof value);
  }
  return values;
}

enum class Output { OfItsOwn, FirstSource, LastSource };

struct Case {
  Isa isa;
  ReduceOp op;
  int sources;
  size_t count;
  size_t offset;  // elements between an aligned address and the first value
  Output output;
};

template <class T>
::testing::AssertionResult matches(
    const Case& c, ScalarType dtype, std::mt19937_64& random) {
  constexpr size_t kGuard = 70;
  const size_t length = c.offset + c.count + kGuard;
  std::vector<std::vector<T>> buffers;
  for (int k = 0; k <= c.sources; ++k)  // the last one is for the result
    buffers.push_back(any_values<T>(length, random));
  const auto before = buffers;
  std::vector<const T*> in, wanted_in;
  std::vector<const std::byte*> raw;
  for (size_t k = 0; k < static_cast<size_t>(c.sources); ++k) {
    in.push_back(buffers[k].data() + c.offset);
    wanted_in.push_back(before[k].data() + c.offset);
    raw.push_back(reinterpret_cast<const std::byte*>(in.back()));
  }
  const size_t target = c.output == Output::FirstSource  ? 0
                        : c.output == Output::LastSource ? in.size() - 1
                                                         : in.size();
  T* out = buffers[target].data() + c.offset;
  reduce_kernels_of(c.isa, c.op, dtype)
      .reduce(reinterpret_cast<std::byte*>(out), raw.data(), c.sources, c.count);
  const auto failure = [&] {
    return ::testing::AssertionFailure()
           << to_string(c.isa) << " " << to_string(c.op) << " " << dtype_name(dtype)
           << ", " << c.sources << " sources of " << c.count << " from element "
           << c.offset << ", result in buffer " << target << ": ";
  };
  const std::vector<T> wanted = plain<T>(c.op, wanted_in, c.count);
  for (size_t i = 0; i < c.count; ++i)
    if (!same_value(out[i], wanted[i]))
      return failure() << "element " << i << " is " << +out[i] << ", wanted "
                       << +wanted[i];
  for (size_t k = 0; k < buffers.size(); ++k)
    for (size_t i = 0; i < length; ++i) {
      const bool written = k == target && i >= c.offset && i < c.offset + c.count;
      if (!written && std::memcmp(&buffers[k][i], &before[k][i], sizeof(T)) != 0)
        return failure() << "wrote to element " << i << " of buffer " << k;
    }
  return ::testing::AssertionSuccess();
}

template <class T>
void check_dtype(ScalarType dtype) {
  std::mt19937_64 random(42);
  for (const Isa isa : isas())
    for (const ReduceOp op : kOps) {
      if (reduce_kernels_of(isa, op, dtype).reduce == nullptr)
        continue;
      for (const int sources : kSources)
        for (const size_t count : kCounts)
          for (const size_t offset : {0, 1, 3})
            for (const Output output :
                 {Output::OfItsOwn, Output::FirstSource, Output::LastSource})
              ASSERT_TRUE(
                  matches<T>({isa, op, sources, count, offset, output}, dtype, random));
    }
}

TEST(ReduceKernel, MatchesAPlainLoopForFloat32) {
  check_dtype<float>(ScalarType::Float);
}
TEST(ReduceKernel, MatchesAPlainLoopForFloat64) {
  check_dtype<double>(ScalarType::Double);
}
TEST(ReduceKernel, MatchesAPlainLoopForFloat16) {
  check_dtype<c10::Half>(ScalarType::Half);
}
TEST(ReduceKernel, MatchesAPlainLoopForBfloat16) {
  check_dtype<c10::BFloat16>(ScalarType::BFloat16);
}
TEST(ReduceKernel, MatchesAPlainLoopForUint8) {
  check_dtype<uint8_t>(ScalarType::Byte);
}
TEST(ReduceKernel, MatchesAPlainLoopForInt8) {
  check_dtype<int8_t>(ScalarType::Char);
}
TEST(ReduceKernel, MatchesAPlainLoopForInt16) {
  check_dtype<int16_t>(ScalarType::Short);
}
TEST(ReduceKernel, MatchesAPlainLoopForInt32) {
  check_dtype<int32_t>(ScalarType::Int);
}
TEST(ReduceKernel, MatchesAPlainLoopForInt64) {
  check_dtype<int64_t>(ScalarType::Long);
}
TEST(ReduceKernel, MatchesAPlainLoopForUint16) {
  check_dtype<uint16_t>(ScalarType::UInt16);
}
TEST(ReduceKernel, MatchesAPlainLoopForUint32) {
  check_dtype<uint32_t>(ScalarType::UInt32);
}
TEST(ReduceKernel, MatchesAPlainLoopForUint64) {
  check_dtype<uint64_t>(ScalarType::UInt64);
}

// ---- single values, on the scalar path and on the vector path
// --------------------------

// The result of reducing one value a source, repeated so that vectors are used too; all
// instruction sets must agree.
template <class T>
T reduced(ReduceOp op, ScalarType dtype, const std::vector<T>& values) {
  T result{};
  bool first = true;
  for (const Isa isa : isas())
    for (const size_t count : {1, 300}) {
      std::vector<std::vector<T>> buffers;
      std::vector<const std::byte*> in;
      for (const T value : values)
        buffers.emplace_back(count, value);
      for (const auto& buffer : buffers)
        in.push_back(reinterpret_cast<const std::byte*>(buffer.data()));
      std::vector<T> out(count);
      reduce_kernels_of(isa, op, dtype)
          .reduce(
              reinterpret_cast<std::byte*>(out.data()),
              in.data(),
              static_cast<int>(values.size()),
              count);
      if (first)
        result = out[0];
      first = false;
      for (const T value : out)
        EXPECT_TRUE(same_value(value, result))
            << to_string(isa) << " " << to_string(op) << " " << dtype_name(dtype);
    }
  return result;
}

float bf16(ReduceOp op, const std::vector<float>& values) {
  std::vector<c10::BFloat16> narrow;
  for (const float value : values) {
    narrow.emplace_back(value);
    EXPECT_TRUE(same_value(static_cast<float>(narrow.back()), value)) << value;
  }
  return reduced(op, ScalarType::BFloat16, narrow);
}

float fp16(ReduceOp op, const std::vector<float>& values) {
  std::vector<c10::Half> narrow;
  for (const float value : values) {
    narrow.emplace_back(value);
    EXPECT_TRUE(same_value(static_cast<float>(narrow.back()), value)) << value;
  }
  return reduced(op, ScalarType::Half, narrow);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ReduceKernel, LetsNanWinMinAndMax) {
  for (const ReduceOp op : {ReduceOp::Min, ReduceOp::Max})
    for (const std::vector<float>& values : std::vector<std::vector<float>>{
             {kNan, 1, 2}, {1, kNan, 2}, {1, 2, kNan}, {kNan, kInf}, {-kInf, kNan}}) {
      EXPECT_TRUE(std::isnan(reduced(op, ScalarType::Float, values)));
      const std::vector<double> wide(values.begin(), values.end());
      EXPECT_TRUE(std::isnan(reduced(op, ScalarType::Double, wide)));
      EXPECT_TRUE(std::isnan(bf16(op, values)));
      EXPECT_TRUE(std::isnan(fp16(op, values)));
    }
}

TEST(ReduceKernel, KnowsInfinities) {
  for (const auto& f : {&bf16, &fp16}) {
    EXPECT_EQ(f(ReduceOp::Sum, {kInf, 1}), kInf);
    EXPECT_EQ(f(ReduceOp::Sum, {-kInf, 1}), -kInf);
    EXPECT_TRUE(std::isnan(f(ReduceOp::Sum, {kInf, -kInf})));
    EXPECT_EQ(f(ReduceOp::Min, {kInf, 1, -kInf}), -kInf);
    EXPECT_EQ(f(ReduceOp::Max, {-kInf, 1, kInf}), kInf);
    EXPECT_TRUE(std::isnan(f(ReduceOp::Sum, {kNan, 1})));
    EXPECT_TRUE(std::isnan(f(ReduceOp::Sum, {kNan})));
  }
}

// bfloat16 has 8 digits: 1, 1 + 1/128, 1 + 2/128.
TEST(ReduceKernel, RoundsBfloat16TiesToEven) {
  constexpr float step = 1.0F / 128, half = step / 2;
  EXPECT_EQ(bf16(ReduceOp::Sum, {1, half}), 1.0F);
  EXPECT_EQ(bf16(ReduceOp::Sum, {1 + step, half}), 1 + 2 * step);
  EXPECT_EQ(bf16(ReduceOp::Sum, {-1, -half}), -1.0F);
  EXPECT_EQ(bf16(ReduceOp::Sum, {-1 - step, -half}), -1 - 2 * step);
  // A little more than a tie goes up, a little less down.
  EXPECT_EQ(bf16(ReduceOp::Sum, {1, half, half / 64}), 1 + step);
  EXPECT_EQ(bf16(ReduceOp::Sum, {1, half, -half / 64}), 1.0F);
}

TEST(ReduceKernel, RoundsFloat16TiesToEven) {
  constexpr float step = 1.0F / 1024, half = step / 2;
  EXPECT_EQ(fp16(ReduceOp::Sum, {1, half}), 1.0F);
  EXPECT_EQ(fp16(ReduceOp::Sum, {1 + step, half}), 1 + 2 * step);
}

TEST(ReduceKernel, RoundsHalfPrecisionOnce) {
  // Step by step 256 + 1 would fall back to 256, twice.
  EXPECT_EQ(bf16(ReduceOp::Sum, {256, 1, 1}), 258.0F);
  EXPECT_EQ(fp16(ReduceOp::Sum, {2048, 1, 1}), 2050.0F);
  // Beyond the range on the way, but not at the end.
  EXPECT_EQ(fp16(ReduceOp::Sum, {65504, 65504, -65504}), 65504.0F);
  EXPECT_EQ(fp16(ReduceOp::Mean, {65504, 65504}), 65504.0F);
}

TEST(ReduceKernel, OverflowsToInfinity) {
  const float most = static_cast<float>(std::numeric_limits<c10::BFloat16>::max());
  EXPECT_EQ(bf16(ReduceOp::Sum, {most, most}), kInf);
  EXPECT_EQ(bf16(ReduceOp::Sum, {-most, -most}), -kInf);
  // Half a step above the largest rounds up to infinity, less stays.
  const float half_step = std::ldexp(1.0F, 127 - 8);
  EXPECT_EQ(bf16(ReduceOp::Sum, {most, half_step}), kInf);
  EXPECT_EQ(bf16(ReduceOp::Sum, {most, half_step / 2}), most);
  EXPECT_EQ(fp16(ReduceOp::Sum, {65504, 65504}), kInf);
  EXPECT_EQ(fp16(ReduceOp::Sum, {65504, 16}), kInf);
  EXPECT_EQ(fp16(ReduceOp::Sum, {65504, 15}), 65504.0F);
  EXPECT_EQ(fp16(ReduceOp::Product, {-256, 256}), -kInf);
}

TEST(ReduceKernel, KeepsSmallNumbers) {
  const float tiny = std::ldexp(1.0F, -24);  // the smallest of float16
  EXPECT_EQ(fp16(ReduceOp::Sum, {tiny, tiny}), 2 * tiny);
  EXPECT_EQ(fp16(ReduceOp::Mean, {tiny, tiny}), tiny);
  const float smallest = std::ldexp(1.0F, -133);  // of bfloat16
  EXPECT_EQ(bf16(ReduceOp::Sum, {smallest, smallest}), 2 * smallest);
}

TEST(ReduceKernel, DividesAMean) {
  EXPECT_EQ(reduced<float>(ReduceOp::Mean, ScalarType::Float, {1, 2}), 1.5F);
  EXPECT_EQ(reduced<double>(ReduceOp::Mean, ScalarType::Double, {1, 1, 0}), 2.0 / 3);
  EXPECT_EQ(reduced<float>(ReduceOp::Mean, ScalarType::Float, {1, 1, 0}), 2.0F / 3);
}

TEST(ReduceKernel, WrapsIntegers) {
  EXPECT_EQ(reduced<int8_t>(ReduceOp::Sum, ScalarType::Char, {127, 1}), -128);
  EXPECT_EQ(reduced<uint8_t>(ReduceOp::Sum, ScalarType::Byte, {255, 2}), 1);
  EXPECT_EQ(reduced<int16_t>(ReduceOp::Sum, ScalarType::Short, {-32768, -1}), 32767);
  constexpr int32_t low = std::numeric_limits<int32_t>::min();
  constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(reduced<int32_t>(ReduceOp::Sum, ScalarType::Int, {low, -1}), ~low);
  EXPECT_EQ(reduced<int64_t>(ReduceOp::Sum, ScalarType::Long, {lowest, -1}), ~lowest);
  EXPECT_EQ(reduced<int32_t>(ReduceOp::Product, ScalarType::Int, {low, -1}), low);
  EXPECT_EQ(
      reduced<int64_t>(ReduceOp::Product, ScalarType::Long, {lowest, -1}), lowest);
}

// int arithmetic would overflow: 65535 * 65535 is more than an int holds.
TEST(ReduceKernel, MultipliesSmallIntegersWithoutOverflow) {
  EXPECT_EQ(reduced<int16_t>(ReduceOp::Product, ScalarType::Short, {-1, -1, -1}), -1);
  EXPECT_EQ(
      reduced<int16_t>(ReduceOp::Product, ScalarType::Short, {-32768, -1}), -32768);
  EXPECT_EQ(reduced<int16_t>(ReduceOp::Product, ScalarType::Short, {300, 300}), 24464);
  EXPECT_EQ(reduced<int8_t>(ReduceOp::Product, ScalarType::Char, {-128, -1}), -128);
  EXPECT_EQ(reduced<int8_t>(ReduceOp::Product, ScalarType::Char, {16, 17}), 16);
  EXPECT_EQ(reduced<uint8_t>(ReduceOp::Product, ScalarType::Byte, {255, 255}), 1);
  EXPECT_EQ(
      reduced<uint16_t>(ReduceOp::Product, ScalarType::UInt16, {65535, 65535}), 1);
}

TEST(ReduceKernel, ComparesSignedAsSigned) {
  EXPECT_EQ(reduced<int8_t>(ReduceOp::Min, ScalarType::Char, {1, -1}), -1);
  EXPECT_EQ(reduced<uint8_t>(ReduceOp::Max, ScalarType::Byte, {1, 255}), 255);
  EXPECT_EQ(reduced<int64_t>(ReduceOp::Max, ScalarType::Long, {-5, -7}), -5);
}

TEST(ReduceKernel, TakesBoolAsOneBit) {
  for (const ReduceOp op : kOps) {
    if (op == ReduceOp::Mean)
      continue;
    const bool any =
        op == ReduceOp::Sum || op == ReduceOp::Max || op == ReduceOp::BitOr;
    for (int mask = 0; mask < 8; ++mask) {
      const std::vector<uint8_t> values = {
          static_cast<uint8_t>(mask & 1),
          static_cast<uint8_t>(mask >> 1 & 1),
          static_cast<uint8_t>(mask >> 2)};
      EXPECT_EQ(reduced(op, ScalarType::Bool, values), any ? mask != 0 : mask == 7)
          << to_string(op) << " of " << mask;
    }
  }
}

// ---- the table
// -------------------------------------------------------------------------

const std::set<ScalarType> kFloats = {
    ScalarType::Float, ScalarType::Double, ScalarType::Half, ScalarType::BFloat16};
const std::set<ScalarType> kIntegers = {
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::UInt16,
    ScalarType::UInt32,
    ScalarType::UInt64};

bool should_exist(ReduceOp op, ScalarType dtype) {
  const bool bits = op == ReduceOp::BitAnd || op == ReduceOp::BitOr;
  if (kFloats.contains(dtype))
    return !bits;
  return (kIntegers.contains(dtype) || dtype == ScalarType::Bool) &&
         op != ReduceOp::Mean;
}

TEST(ReduceKernel, HasWhatGoesTogether) {
  for (const ReduceOp op : kOps)
    for (int number = 0; number < static_cast<int>(ScalarType::Undefined); ++number) {
      const auto dtype = static_cast<ScalarType>(number);
      for (const Isa isa : isas())
        EXPECT_EQ(
            reduce_kernels_of(isa, op, dtype).reduce != nullptr,
            should_exist(op, dtype))
            << to_string(isa) << " " << to_string(op) << " " << dtype_name(dtype);
      if (should_exist(op, dtype)) {
        EXPECT_EQ(
            reduce_kernel(op, dtype), reduce_kernels_of(best_isa(), op, dtype).reduce);
        continue;
      }
      EXPECT_EQ(
          message_of<InvalidArgument>([&] { reduce_kernel(op, dtype); }),
          text(
              "[comm] expected a reduction that ",
              dtype_name(dtype),
              " has, got ",
              to_string(op),
              op == ReduceOp::Mean
                  ? "; take the sum and divide, or convert to a float dtype"
                  : "; convert the tensor to a dtype that has it"));
    }
}

TEST(ReduceKernel, NamesInstructionSets) {
  EXPECT_EQ(to_string(Isa::Baseline), "baseline");
  EXPECT_EQ(to_string(Isa::Avx2), "avx2");
  EXPECT_EQ(to_string(Isa::Avx512), "avx512");
}

}  // namespace
}  // namespace trireme::comm
