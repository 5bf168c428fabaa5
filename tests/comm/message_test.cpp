// The encoded form of a message: what goes in comes out, and damaged bytes are refused.
#include "trireme/comm/message.h"

#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::message_of;
using testing::same;

// Bytes that end where they end, so that AddressSanitizer sees a step beyond.
class Bytes {
 public:
  explicit Bytes(size_t size)
      : data_(static_cast<std::byte*>(::operator new(size, kAlign))), size_(size) {
    std::memset(data_, 0xA5, size);
  }
  Bytes(const std::byte* from, size_t size) : Bytes(size) {
    std::memcpy(data_, from, size);
  }
  ~Bytes() { ::operator delete(data_, kAlign); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_, size_}; }
  template <class T>
  T read(size_t at) const {
    T value;
    std::memcpy(&value, data_ + at, sizeof value);
    return value;
  }
  template <class T>
  void write(size_t at, T value) const {
    std::memcpy(data_ + at, &value, sizeof value);
  }

 private:
  static constexpr auto kAlign = std::align_val_t(kMessageAlignment);
  std::byte* data_;
  size_t size_;
};

// Makes views of the bytes, and checks that they lie inside.
class Views : public TensorMaker {
 public:
  explicit Views(std::span<std::byte> bytes) : bytes_(bytes) {}
  at::Tensor make(std::byte* data, const TensorForm& form) override {
    ++made;
    at::Tensor tensor = at::from_blob(
        data,
        form.sizes,
        form.strides,
        at::TensorOptions().dtype(form.dtype).device(at::kCPU));
    EXPECT_GE(data, bytes_.data());
    EXPECT_LE(data + tensor.nbytes(), bytes_.data() + bytes_.size());
    return tensor;
  }
  int made = 0;

 private:
  std::span<std::byte> bytes_;
};

std::unique_ptr<Bytes> encoded(const Message& message) {
  const MessageLayout layout = measure(message);
  auto bytes = std::make_unique<Bytes>(layout.total_bytes);
  encode(message, layout, bytes->data());
  return bytes;
}

Message decoded(const Bytes& bytes) {
  Views views(bytes.span());
  return decode(bytes.span(), views);
}

std::string refusal(const Bytes& bytes) {
  return message_of<InvalidArgument>([&] { decoded(bytes); });
}

// Bits, also for dtypes that cannot be compared.
void expect_same_bits(const at::Tensor& got, const at::Tensor& wanted) {
  ASSERT_EQ(got.scalar_type(), wanted.scalar_type());
  ASSERT_EQ(got.sizes(), wanted.sizes());
  const at::Tensor a = got.detach().contiguous();
  const at::Tensor b = wanted.detach().contiguous();
  if (a.nbytes() > 0) {
    EXPECT_EQ(std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()), 0)
        << wanted.scalar_type();
  }
}

TEST(Message, CarriesNothing) {
  const auto bytes = encoded({});
  EXPECT_EQ(bytes->size(), kMessageAlignment);
  const Message got = decoded(*bytes);
  EXPECT_TRUE(got.tensors.empty());
  EXPECT_EQ(got.header.word, 0);
  EXPECT_EQ(got.header.bytes, "");
}

TEST(Message, CarriesEveryDtype) {
  const at::Tensor raw = at::arange(96, at::kByte);
  Message message;
  for (const auto dtype :
       {at::kByte,
        at::kChar,
        at::kShort,
        at::kInt,
        at::kLong,
        at::kHalf,
        at::kFloat,
        at::kDouble,
        at::kComplexHalf,
        at::kComplexFloat,
        at::kComplexDouble,
        at::kBFloat16,
        at::kFloat8_e5m2,
        at::kFloat8_e4m3fn,
        at::kFloat8_e5m2fnuz,
        at::kUInt16,
        at::kUInt32,
        at::kUInt64,
        at::kFloat8_e4m3fnuz})
    message.tensors.push_back(raw.view(dtype));
  message.tensors.push_back(raw.remainder(2).to(at::kBool));
  const auto bytes = encoded(message);
  const Message got = decoded(*bytes);
  ASSERT_EQ(got.tensors.size(), message.tensors.size());
  for (size_t i = 0; i < message.tensors.size(); ++i)
    expect_same_bits(got.tensors[i], message.tensors[i]);
}

TEST(Message, CarriesEveryShape) {
  const std::vector<at::Tensor> tensors = {
      at::Tensor(),
      at::full({}, 7, at::kLong),
      at::empty({0}),
      at::empty({3, 0, 5}, at::kShort),
      at::arange(24).reshape({2, 3, 4}),
      at::arange(24).reshape({2, 3, 4}).transpose(0, 2),
      at::arange(24).slice(0, 1, 20, 3),
      at::ones({1}).expand({4, 5}),
      at::Tensor(),
      at::ones({1}).reshape(std::vector<int64_t>(64, 1))};
  const auto bytes = encoded({.tensors = tensors});
  const Message got = decoded(*bytes);
  ASSERT_EQ(got.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    EXPECT_TRUE(same(got.tensors[i], tensors[i])) << i;
}

TEST(Message, CarriesStrides) {
  const at::Tensor image = at::arange(120).reshape({2, 3, 4, 5});
  const std::vector<at::Tensor> tensors = {
      image.contiguous(at::MemoryFormat::ChannelsLast),
      image.permute({2, 0, 3, 1}),
      at::arange(3).reshape({1, 3}).t(),
      at::arange(8).reshape({2, 1, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast),
      at::ones({1}).as_strided({1, 1}, {7, 9})};
  const auto bytes = encoded({.tensors = tensors});
  const Message got = decoded(*bytes);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(got.tensors[i].strides(), tensors[i].strides()) << i;
    expect_same_bits(got.tensors[i], tensors[i]);
  }
}

// What has gaps travels without them, its dims in the same order.
TEST(Message, LeavesOutGapsButKeepsTheOrderOfDims) {
  const at::Tensor image =
      at::arange(240).reshape({2, 3, 4, 10}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor part = image.slice(3, 0, 10, 2);
  const auto bytes = encoded({.tensors = {part, at::ones({3, 1}).expand({3, 4})}});
  EXPECT_LE(bytes->size(), 120 * 8 + 64 + 256U);
  const Message got = decoded(*bytes);
  EXPECT_TRUE(got.tensors[0].is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(same(got.tensors[0], part));
  EXPECT_TRUE(same(got.tensors[1], at::ones({3, 4})));
}

TEST(Message, CarriesTheHeader) {
  for (const int64_t word :
       {int64_t{0}, std::numeric_limits<int64_t>::min(), int64_t{-1}})
    for (const size_t length : {size_t{0}, size_t{1}, size_t{40}, size_t{4096}}) {
      std::string text(length, 'x');
      if (length > 0)
        text[length / 2] = '\0';
      const auto bytes = encoded(
          {.tensors = {at::ones({3})}, .header = {.word = word, .bytes = text}});
      const Message got = decoded(*bytes);
      EXPECT_EQ(got.header.word, word);
      EXPECT_EQ(got.header.bytes, text);
      EXPECT_TRUE(same(got.tensors.at(0), at::ones({3})));
    }
}

TEST(Message, AlignsEveryTensor) {
  const Message message = {
      .tensors = {at::ones({1}), at::Tensor(), at::ones({17}), at::empty({0})}};
  const MessageLayout layout = measure(message);
  EXPECT_EQ(layout.description_bytes % kMessageAlignment, 0U);
  EXPECT_EQ(layout.total_bytes, layout.description_bytes + 64 + 128);
  const auto bytes = encoded(message);
  const Message got = decoded(*bytes);
  const std::byte* start = bytes->data() + layout.description_bytes;
  EXPECT_EQ(got.tensors[0].data_ptr(), start);
  EXPECT_EQ(got.tensors[2].data_ptr(), start + 64);
}

TEST(Message, AsksForOneTensorOverEachThatIsThere) {
  const auto bytes = encoded({.tensors = {at::ones({2}), at::Tensor(), at::ones({3})}});
  Views views(bytes->span());
  decode(bytes->span(), views);
  EXPECT_EQ(views.made, 2);
}

TEST(Message, KeepsWhetherATensorRequiresGrad) {
  const at::Tensor leaf = at::ones({2, 2}).set_requires_grad(true);
  const auto bytes = encoded(
      {.tensors = {leaf, leaf.mul(2), leaf.mul(3).t(), leaf.detach(), at::ones({1})}});
  const Message got = decoded(*bytes);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got.tensors[i].requires_grad(), i < 3) << i;
    EXPECT_TRUE(got.tensors[i].is_leaf());
  }
  EXPECT_TRUE(same(got.tensors[2], at::full({2, 2}, 3.0F)));
}

TEST(Message, WritesOutConjugatesAndNegatives) {
  const at::Tensor z = at::complex(at::arange(4.0F), at::arange(4.0F).add(1));
  const at::Tensor conj = at::conj(z);
  const at::Tensor negative = at::imag(conj.view({2, 2}));
  ASSERT_TRUE(conj.is_conj() && conj.is_contiguous() && negative.is_neg());
  const auto bytes = encoded({.tensors = {conj, negative, at::_neg_view(z)}});
  const Message got = decoded(*bytes);
  EXPECT_TRUE(same(got.tensors[0], conj.resolve_conj()));
  EXPECT_TRUE(same(got.tensors[1], negative.resolve_neg()));
  EXPECT_TRUE(same(got.tensors[2], z.neg()));
}

TEST(Message, RefusesWhatCannotTravel) {
  const auto refused = [](const at::Tensor& tensor) {
    return message_of<InvalidArgument>([&] {
      measure({.tensors = {at::ones({1}), tensor}});
    });
  };
  const std::string start = "[comm] expected dense CPU tensors in a message, got ";
  const std::string end = " at position 1; move or convert it before sending";
  EXPECT_EQ(refused(at::empty({2}, at::kMeta)), start + "Meta" + end);
  EXPECT_EQ(refused(at::ones({2}).to_sparse()), start + "SparseCPU" + end);
  EXPECT_EQ(
      refused(at::quantize_per_tensor(at::ones({4}), 0.1, 10, at::kQInt8)),
      start + "QuantizedCPU" + end);
}

TEST(Message, RefusesTooManyDims) {
  const at::Tensor deep = at::empty(std::vector<int64_t>(65, 1));
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { measure({.tensors = {deep}}); }),
      "[comm] expected at most 64 dims in a message, got 65 at position 0; reshape it "
      "before sending");
}

TEST(Message, RefusesTooManyTensors) {
  Message message;
  message.tensors.resize(65536);
  EXPECT_EQ(decoded(*encoded(message)).tensors.size(), 65536U);
  message.tensors.emplace_back();
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { measure(message); }),
      "[comm] expected at most 65536 tensors in a message, got 65537; send several "
      "messages");
}

TEST(Message, RefusesALongHeader) {
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [] { measure({.header = {.bytes = std::string(4097, 'x')}}); }),
      "[comm] expected at most 4096 header bytes in a message, got 4097; send them as "
      "a "
      "uint8 tensor");
}

// ---- damaged bytes
// ---------------------------------------------------------------------

// Two tensors and header bytes: 24 bytes, then 16 + 2 * 8, 16, 16 + 8, then the text.
constexpr size_t kMagicAt = 0, kCountAt = 4, kHeaderBytesAt = 16;
constexpr size_t kFlagsAt = 24, kDtypeAt = 25, kDimsAt = 26, kOffsetAt = 32,
                 kSizeAt = 40;

Message sample() {
  return {
      .tensors =
          {at::arange(6, at::kFloat).reshape({2, 3}), at::Tensor(), at::ones({5})},
      .header = {.word = 11, .bytes = "abc"}};
}

const std::string kSameBuild = "; run the same build on all ranks";
const std::string kCutOff =
    "[comm] expected a whole message, got one that is cut off" + kSameBuild;

std::string of_another_version(const std::string& what) {
  return "[comm] expected a message of this version, got " + what + kSameBuild;
}

TEST(Message, RefusesEveryBeginningOfAMessage) {
  const auto bytes = encoded(sample());
  const size_t last = bytes->size() - 64 + 5 * sizeof(float);  // padding follows
  for (size_t length = 0; length < last; ++length) {
    const Bytes cut(bytes->data(), length);
    EXPECT_THROW(decoded(cut), InvalidArgument) << length;
  }
  const Bytes whole(bytes->data(), last);
  EXPECT_TRUE(same(decoded(whole).tensors[2], at::ones({5})));
  EXPECT_EQ(refusal(Bytes(bytes->data(), 23)), kCutOff);
  EXPECT_EQ(refusal(Bytes(bytes->data(), 39)), kCutOff);
}

TEST(Message, RefusesATensorBeyondTheEnd) {
  const auto bytes = encoded(sample());
  EXPECT_EQ(
      refusal(Bytes(bytes->data(), bytes->size() - 64)),
      of_another_version("a tensor at offset " + std::to_string(bytes->size() - 64)));
}

TEST(Message, RefusesAnotherMagic) {
  const auto bytes = encoded(sample());
  bytes->write<uint32_t>(kMagicAt, 7);
  EXPECT_EQ(refusal(*bytes), of_another_version("one that begins with 7"));
}

TEST(Message, RefusesAWrongCount) {
  const auto bytes = encoded(sample());
  bytes->write<uint32_t>(kCountAt, 65537);
  EXPECT_EQ(refusal(*bytes), of_another_version("65537 tensors and 3 header bytes"));
  bytes->write<uint32_t>(kCountAt, 65536);
  EXPECT_THROW(decoded(*bytes), InvalidArgument);
}

TEST(Message, RefusesHeaderBytesThatAreNotThere) {
  const auto bytes = encoded(sample());
  bytes->write<uint32_t>(kHeaderBytesAt, 4097);
  EXPECT_EQ(refusal(*bytes), of_another_version("3 tensors and 4097 header bytes"));
  bytes->write<uint32_t>(kHeaderBytesAt, 4096);
  EXPECT_EQ(refusal(*bytes), kCutOff);
}

TEST(Message, RefusesWrongDims) {
  const auto bytes = encoded(sample());
  bytes->write<uint16_t>(kDimsAt, 65);
  EXPECT_EQ(refusal(*bytes), of_another_version("65 dims"));
  bytes->write<uint16_t>(kDimsAt, 64);
  EXPECT_THROW(decoded(*bytes), InvalidArgument);
}

TEST(Message, RefusesAnUnknownDtype) {
  const auto bytes = encoded(sample());
  for (const auto dtype : {c10::ScalarType::Undefined, c10::ScalarType::QInt8}) {
    const auto number = static_cast<uint8_t>(dtype);
    bytes->write(kDtypeAt, number);
    EXPECT_EQ(
        refusal(*bytes), of_another_version("dtype number " + std::to_string(number)));
  }
  bytes->write<uint8_t>(kDtypeAt, 255);
  EXPECT_EQ(refusal(*bytes), of_another_version("dtype number 255"));
}

TEST(Message, RefusesWrongSizes) {
  const auto bytes = encoded(sample());
  bytes->write<int64_t>(kSizeAt, -1);
  EXPECT_EQ(refusal(*bytes), of_another_version("a negative size -1"));
  bytes->write<int64_t>(kSizeAt, int64_t{1} << 62);
  EXPECT_EQ(refusal(*bytes), of_another_version("sizes that overflow"));
  bytes->write<int64_t>(kSizeAt, 1000);
  EXPECT_EQ(
      refusal(*bytes),
      of_another_version(
          "a tensor of 12000 bytes in a message of " + std::to_string(bytes->size())));
  // No elements, yet sizes that no tensor can have.
  bytes->write<int64_t>(kSizeAt, 0);
  bytes->write<int64_t>(kSizeAt + 8, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(refusal(*bytes), of_another_version("sizes that overflow"));
}

TEST(Message, RefusesAWrongOffset) {
  const auto bytes = encoded(sample());
  const auto good = bytes->read<uint64_t>(kOffsetAt);
  for (const uint64_t wrong :
       {good + 1,
        good + 63,
        uint64_t{bytes->size()},
        uint64_t{1} << 40,
        ~uint64_t{63},
        ~uint64_t{0}}) {
    bytes->write(kOffsetAt, wrong);
    EXPECT_EQ(
        refusal(*bytes),
        of_another_version("a tensor at offset " + std::to_string(wrong)));
  }
}

TEST(Message, RefusesStridesThatOverlapOrLeaveGaps) {
  const auto bytes = encoded({.tensors = {at::arange(6).reshape({3, 2}).t()}});
  const size_t strides_at = kSizeAt + 2 * sizeof(int64_t);
  ASSERT_EQ(bytes->read<int64_t>(strides_at), 1);
  ASSERT_EQ(bytes->read<int64_t>(strides_at + 8), 2);
  for (const auto& [first, second] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1},
           {0, 2},
           {2, 2},
           {2, 3},
           {1, 3},
           {-1, 2},
           {1, std::numeric_limits<int64_t>::max()}}) {
    bytes->write(strides_at, first);
    bytes->write(strides_at + 8, second);
    EXPECT_EQ(
        refusal(*bytes),
        of_another_version(
            text("strides [", first, ", ", second, "] for sizes [2, 3]")));
  }
  bytes->write<int64_t>(strides_at, 3);
  bytes->write<int64_t>(strides_at + 8, 1);
  EXPECT_TRUE(same(decoded(*bytes).tensors[0], at::arange(6).reshape({2, 3})));
  // Without elements there is nothing to stride over.
  const auto empty = encoded({.tensors = {at::empty({0, 3})}});
  empty->write<uint8_t>(kFlagsAt, 5);
  EXPECT_THROW(decoded(*empty), InvalidArgument);
}

TEST(Message, IgnoresAGradientOfIntegers) {
  const auto bytes = encoded({.tensors = {at::ones({2}, at::kLong)}});
  bytes->write<uint8_t>(kFlagsAt, 3);
  EXPECT_FALSE(decoded(*bytes).tensors[0].requires_grad());
}

// Whatever a byte of the description becomes: a message inside the bytes, or an error.
TEST(Message, NeverReadsBeyondDamagedBytes) {
  const Message message = sample();
  const auto bytes = encoded(message);
  const size_t description = measure(message).description_bytes;
  int refused = 0;
  for (size_t at = 0; at < description; ++at) {
    const auto good = bytes->read<uint8_t>(at);
    for (int value = 0; value < 256; ++value) {
      bytes->write(at, static_cast<uint8_t>(value));
      try {
        for (const at::Tensor& tensor : decoded(*bytes).tensors)
          if (tensor.defined() && tensor.nbytes() > 0) {
            // Reads every byte.
            EXPECT_EQ(
                std::memcmp(tensor.data_ptr(), tensor.data_ptr(), tensor.nbytes()), 0);
          }
      } catch (const InvalidArgument&) {
        ++refused;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "byte " << at << " = " << value << ": " << error.what();
      }
    }
    bytes->write(at, good);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_TRUE(same(decoded(*bytes).tensors[0], message.tensors[0]));
}

}  // namespace
}  // namespace trireme::comm
