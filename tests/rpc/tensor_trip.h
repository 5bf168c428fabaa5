// Tensors on their way and back, for tests.
#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "trireme/rpc/values.h"

namespace trireme::rpc {

struct PackedTensors {
  std::string head;
  std::vector<Part> parts;
};

inline PackedTensors packed(const std::vector<at::Tensor>& tensors) {
  net::ByteWriter head;
  PackedTensors packed;
  pack_tensors(tensors, head, packed.parts);
  packed.head = head.take();
  return packed;
}

/// A part as a receiver has it: memory of its own, at a multiple of 64, whose end is
/// where it ends.
inline Part received(const Part& part) {
  constexpr std::align_val_t kAlign{64};
  const std::shared_ptr<std::byte> memory(
      static_cast<std::byte*>(::operator new(part.bytes.size(), kAlign)),
      [](std::byte* held) { ::operator delete(held, kAlign); });
  if (!part.bytes.empty())
    std::memcpy(memory.get(), part.bytes.data(), part.bytes.size());
  return {.bytes = {memory.get(), part.bytes.size()}, .keep = memory};
}

inline std::vector<at::Tensor> unpacked(
    const PackedTensors& packed, const ValueLimits& limits = {}) {
  std::vector<Part> parts;
  for (const Part& part : packed.parts)
    parts.push_back(received(part));
  net::ByteReader head(packed.head, "a test");
  std::vector<at::Tensor> tensors = unpack_tensors(head, std::move(parts), limits);
  head.expect_end();
  return tensors;
}

inline at::Tensor tensor_trip(const at::Tensor& tensor) {
  return unpacked(packed({tensor})).at(0);
}

/// Passes when all that a receiver can see is the same: any dtype, to the bit.
inline ::testing::AssertionResult same_tensor(
    const at::Tensor& got, const at::Tensor& expected) {
  if (got.scalar_type() != expected.scalar_type() || got.sizes() != expected.sizes())
    return ::testing::AssertionFailure()
           << "got " << got.scalar_type() << got.sizes() << ", expected "
           << expected.scalar_type() << expected.sizes();
  if (got.requires_grad() != expected.requires_grad())
    return ::testing::AssertionFailure() << "requires_grad differs";
  const at::Tensor a = got.detach().contiguous();
  const at::Tensor b = expected.detach().resolve_conj().resolve_neg().contiguous();
  if (a.nbytes() > 0 &&
      std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) != 0)
    return ::testing::AssertionFailure() << "elements differ";
  return ::testing::AssertionSuccess();
}

/// A tensor of any dtype whose elements differ.
inline at::Tensor counted(at::IntArrayRef sizes, at::ScalarType dtype) {
  at::Tensor plain = at::arange(1, 1 + c10::multiply_integers(sizes), at::kFloat);
  return plain.reshape(sizes).to(dtype);
}

inline const std::vector<at::ScalarType>& packed_dtypes() {
  static const std::vector<at::ScalarType> dtypes{
      at::kByte,
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
      at::kBool,
      at::kBFloat16,
      at::kFloat8_e5m2,
      at::kFloat8_e4m3fn,
      at::kFloat8_e5m2fnuz,
      at::kFloat8_e4m3fnuz,
      at::kFloat8_e8m0fnu,
      at::kUInt16,
      at::kUInt32,
      at::kUInt64};
  return dtypes;
}

}  // namespace trireme::rpc
