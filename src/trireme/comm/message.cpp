#include "trireme/comm/message.h"

#include <algorithm>
#include <cstring>

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include "trireme/comm/collective.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

constexpr uint32_t kMagic = 0x324d5254;  // "TRM2"
constexpr size_t kMostTensors = 65536;
constexpr size_t kMostDims = 64;
constexpr size_t kMostHeaderBytes = 4096;
constexpr uint8_t kPresent = 1, kRequiresGrad = 2, kStrides = 4;

struct Preamble {
  uint32_t magic;
  uint32_t tensors;
  int64_t word;
  uint32_t header_bytes;
  uint32_t reserved;
};

// Followed by `dims` sizes of 8 bytes, and as many strides if they are not the usual.
struct TensorRecord {
  uint8_t flags;
  uint8_t dtype;
  uint16_t dims;
  uint32_t reserved;
  uint64_t offset;
};

size_t padded(size_t bytes) {
  return (bytes + kMessageAlignment - 1) / kMessageAlignment * kMessageAlignment;
}

using Dims = c10::SmallVector<int64_t, 8>;

Dims usual_strides(at::IntArrayRef sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

bool are_usual(at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0; step *= sizes[i])
    if (strides[i] != step)
      return false;
  return true;
}

// How a tensor lies in a message: as it is if that leaves no gaps, else without them.
// Empty for the usual strides, which need not be written down.
Dims unusual_strides(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || are_usual(tensor.sizes(), tensor.strides()))
    return {};
  if (tensor.is_non_overlapping_and_dense())
    return Dims(tensor.strides().begin(), tensor.strides().end());
  const auto dense = at::infer_dense_strides(tensor.sizes(), tensor.strides());
  return are_usual(tensor.sizes(), dense) ? Dims() : Dims(dense.begin(), dense.end());
}

// Whether these strides place the elements side by side, without gaps or overlaps.
bool are_dense(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::vector<size_t> dims;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] < 0)
      return false;
    if (sizes[i] != 1)
      dims.push_back(i);
  }
  std::sort(dims.begin(), dims.end(), [&](size_t a, size_t b) {
    return strides[a] < strides[b];
  });
  int64_t step = 1;
  for (const size_t dim : dims) {
    if (strides[dim] != step)
      return false;
    step *= sizes[dim];
  }
  return true;
}

void check_can_travel(const at::Tensor& tensor, size_t index) {
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu() ||
      tensor.is_quantized())
    throw InvalidArgument(text(
        "[comm] expected dense CPU tensors in a message, got ",
        c10::toString(tensor.options().computeDispatchKey()),
        " at position ",
        index,
        "; move or convert it before sending"));
  if (static_cast<size_t>(tensor.dim()) > kMostDims)
    throw InvalidArgument(text(
        "[comm] expected at most ",
        kMostDims,
        " dims in a message, got ",
        tensor.dim(),
        " at position ",
        index,
        "; reshape it before sending"));
}

void write_elements(const at::Tensor& tensor, const Dims& strides, std::byte* out) {
  const bool as_it_lies = strides.empty()
                              ? tensor.is_contiguous()
                              : tensor.strides() == at::IntArrayRef(strides);
  if (tensor.numel() == 0)
    return;
  if (as_it_lies && !tensor.is_conj() && !tensor.is_neg())
    std::memcpy(out, tensor.const_data_ptr(), tensor.nbytes());
  else
    at::from_blob(
        out,
        tensor.sizes(),
        strides.empty() ? usual_strides(tensor.sizes()) : strides,
        tensor.options().requires_grad(false))
        .copy_(tensor.detach());
}

template <class T>
void put(std::byte*& out, const T& value) {
  std::memcpy(out, &value, sizeof value);
  out += sizeof value;
}

/// Reads values off the front of bytes that come from elsewhere.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  const std::byte* take(size_t count) {
    if (count > bytes_.size())
      throw InvalidArgument(
          "[comm] expected a whole message, got one that is cut off; run the same "
          "build on all ranks");
    const std::byte* start = bytes_.data();
    bytes_ = bytes_.subspan(count);
    return start;
  }

 private:
  std::span<const std::byte> bytes_;
};

[[noreturn]] void refuse(const std::string& what) {
  throw InvalidArgument(
      "[comm] expected a message of this version, got " + what +
      "; run the same build on all ranks");
}

// The bytes of a tensor with these sizes, or an error if they cannot be inside `limit`.
size_t checked_bytes(at::IntArrayRef sizes, c10::ScalarType dtype, size_t limit) {
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  bool empty = false;
  for (const int64_t size : sizes) {
    if (size < 0)
      refuse(text("a negative size ", size));
    empty = empty || size == 0;
    // Without zeros: the strides of an empty tensor must not overflow either.
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes))
      refuse("sizes that overflow");
  }
  if (empty)
    return 0;
  if (static_cast<size_t>(bytes) > limit)
    refuse(text("a tensor of ", bytes, " bytes in a message of ", limit));
  return static_cast<size_t>(bytes);
}

at::Tensor decode_tensor(
    Reader& reader, std::span<std::byte> bytes, TensorMaker& maker) {
  const auto record = reader.get<TensorRecord>();
  if ((record.flags & kPresent) == 0)
    return {};
  if (record.dims > kMostDims)
    refuse(text(record.dims, " dims"));
  if (record.dtype >= static_cast<uint8_t>(c10::ScalarType::Undefined))
    refuse(text("dtype number ", int{record.dtype}));
  const auto dtype = static_cast<c10::ScalarType>(record.dtype);
  if (c10::isQIntType(dtype))  // means nothing without its scale
    refuse(text("dtype number ", int{record.dtype}));
  Dims sizes(record.dims);
  for (int64_t& size : sizes)
    size = reader.get<int64_t>();
  const size_t length = checked_bytes(sizes, dtype, bytes.size());
  Dims strides = usual_strides(sizes);
  if ((record.flags & kStrides) != 0) {
    for (int64_t& stride : strides)
      stride = reader.get<int64_t>();
    if (length == 0 || !are_dense(sizes, strides))
      refuse(text(
          "strides ", at::IntArrayRef(strides), " for sizes ", at::IntArrayRef(sizes)));
  }
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
  if (record.offset > bytes.size() - length || record.offset % kMessageAlignment != 0)
    refuse(text("a tensor at offset ", record.offset));
#endif
  at::Tensor tensor = maker.make(
      bytes.data() + record.offset,
      {.sizes = sizes, .strides = strides, .dtype = dtype});
  if ((record.flags & kRequiresGrad) != 0 &&
      (c10::isFloatingType(dtype) || c10::isComplexType(dtype)))
    tensor.set_requires_grad(true);
  return tensor;
}

}  // namespace

MessageLayout measure(const Message& message) {
  if (message.tensors.size() > kMostTensors)
    throw InvalidArgument(text(
        "[comm] expected at most ",
        kMostTensors,
        " tensors in a message, got ",
        message.tensors.size(),
        "; send several messages"));
  if (message.header.bytes.size() > kMostHeaderBytes)
    throw InvalidArgument(text(
        "[comm] expected at most ",
        kMostHeaderBytes,
        " header bytes in a message, got ",
        message.header.bytes.size(),
        "; send them as a uint8 tensor"));
  MessageLayout layout;
  size_t description = sizeof(Preamble) + message.header.bytes.size();
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    const at::Tensor& tensor = message.tensors[i];
    description += sizeof(TensorRecord);
    if (!tensor.defined())
      continue;
    check_can_travel(tensor, i);
    description += sizeof(int64_t) *
                   (static_cast<size_t>(tensor.dim()) + unusual_strides(tensor).size());
    layout.total_bytes += padded(tensor.nbytes());
  }
  layout.description_bytes = padded(description);
  layout.total_bytes += layout.description_bytes;
  return layout;
}

void encode(const Message& message, const MessageLayout& layout, std::byte* const out) {
  std::byte* cursor = out;
  put(cursor,
      Preamble{
          kMagic,
          static_cast<uint32_t>(message.tensors.size()),
          message.header.word,
          static_cast<uint32_t>(message.header.bytes.size()),
          0});
  size_t offset = layout.description_bytes;
  for (const at::Tensor& tensor : message.tensors) {
    if (!tensor.defined()) {
      put(cursor, TensorRecord{});
      continue;
    }
    const Dims strides = unusual_strides(tensor);
    put(cursor,
        TensorRecord{
            static_cast<uint8_t>(
                kPresent | (tensor.requires_grad() ? kRequiresGrad : 0) |
                (strides.empty() ? 0 : kStrides)),
            static_cast<uint8_t>(tensor.scalar_type()),
            static_cast<uint16_t>(tensor.dim()),
            0,
            offset});
    for (const int64_t size : tensor.sizes())
      put(cursor, size);
    for (const int64_t stride : strides)
      put(cursor, stride);
    write_elements(tensor, strides, out + offset);
    offset += padded(tensor.nbytes());
  }
  std::memcpy(cursor, message.header.bytes.data(), message.header.bytes.size());
}

Message decode(std::span<std::byte> bytes, TensorMaker& maker) {
  Reader reader(bytes);
  const auto preamble = reader.get<Preamble>();
  if (preamble.magic != kMagic)
    refuse(text("one that begins with ", preamble.magic));
  if (preamble.tensors > kMostTensors || preamble.header_bytes > kMostHeaderBytes)
    refuse(text(
        preamble.tensors, " tensors and ", preamble.header_bytes, " header bytes"));
  Message message;
  message.header.word = preamble.word;
  message.tensors.reserve(
      std::min<size_t>(preamble.tensors, bytes.size() / sizeof(TensorRecord)));
  for (uint32_t i = 0; i < preamble.tensors; ++i)
    message.tensors.push_back(decode_tensor(reader, bytes, maker));
  message.header.bytes.assign(
      reinterpret_cast<const char*>(reader.take(preamble.header_bytes)),
      preamble.header_bytes);
  return message;
}

}  // namespace trireme::comm
