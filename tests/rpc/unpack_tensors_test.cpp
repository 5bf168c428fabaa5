#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "forged_record.h"
#include "tensor_trip.h"
#include "trireme/core/error.h"
#include "trireme/rpc/values.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using testing::contains;
using testing::message_of;

Part bytes_part(std::size_t bytes) {
  const std::vector<std::byte> zeros(bytes);
  return received({.bytes = {const_cast<std::byte*>(zeros.data()), bytes}});
}

std::string refusal_of_forged(
    const ForgedRecord& forged,
    std::vector<std::size_t> parts,
    ValueLimits limits = {}) {
  net::ByteWriter head;
  head.u32(1);
  forged.write(head);
  std::vector<Part> memory;
  for (const std::size_t bytes : parts)
    memory.push_back(bytes_part(bytes));
  return message_of<InvalidArgument>([&] {
    net::ByteReader reader(head.bytes(), "a test");
    unpack_tensors(reader, memory, limits);
  });
}

TEST(UnpackTensors, TensorsAreViewsThatHoldTheirParts) {
  PackedTensors out = packed({at::ones({4})});
  Part part = received(out.parts[0]);
  const std::weak_ptr<const void> held = part.keep;
  const void* place = part.bytes.data();
  net::ByteReader head(out.head, "a test");
  std::vector<Part> parts;
  parts.push_back(std::move(part));
  at::Tensor tensor = unpack_tensors(head, std::move(parts), {})[0];
  EXPECT_EQ(tensor.const_data_ptr(), place);
  at::Tensor view = tensor.narrow(0, 1, 2);
  tensor.reset();
  EXPECT_FALSE(held.expired());
  view.add_(1);
  EXPECT_TRUE(same_tensor(view, at::full({2}, 2.0)));
  view.reset();
  EXPECT_TRUE(held.expired());
}

TEST(UnpackTensors, TensorsAreLikeAnyOthers) {
  const at::Tensor arrived = tensor_trip(counted({2, 3}, at::kFloat));
  EXPECT_TRUE(same_tensor(arrived + 1, counted({2, 3}, at::kFloat) + 1));
  EXPECT_EQ(arrived.storage().nbytes(), 24u);
  EXPECT_EQ(arrived.device(), at::kCPU);
  EXPECT_EQ(arrived._version(), 0);
  EXPECT_FALSE(arrived.storage().resizable());
  const at::Tensor leaf = tensor_trip(at::ones({3}).requires_grad_());
  (leaf * 2).sum().backward();
  EXPECT_TRUE(same_tensor(leaf.grad(), at::full({3}, 2.0)));
}

TEST(UnpackTensors, TheHeadMayGoOn) {
  PackedTensors out = packed({at::ones({1})});
  out.head += "more";
  net::ByteReader head(out.head, "a test");
  unpack_tensors(head, {received(out.parts[0])}, {});
  EXPECT_EQ(head.rest(), "more");
}

TEST(UnpackTensors, LimitsAreNamed) {
  EXPECT_TRUE(contains(
      refusal_of_forged(
          {.dtype = at::kDouble, .sizes = {INT64_MAX}}, {8}, {.tensor_bytes = ~0ull}),
      "at most 18446744073709551615 bytes"));
  const ValueLimits limits{.tensor_bytes = 16, .tensors = 2};
  EXPECT_EQ(unpacked(packed({at::ones({4}), at::ones({4})}), limits).size(), 2u);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { unpacked(packed({at::ones({5})}), limits); }),
      "[rpc] expected tensors of at most 16 bytes, got one of sizes [5]; send it in "
      "pieces, or raise ValueLimits::tensor_bytes");
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [&] { unpacked(packed(std::vector<at::Tensor>(3)), limits); }),
      "[rpc] expected at most 2 tensors in a message, got 3; send several messages, or "
      "raise ValueLimits::tensors");
}

TEST(UnpackTensors, MoreTensorsThanBytesAreRefused) {
  const std::string head = net::ByteWriter().u32(1000).u8(0).take();
  net::ByteReader reader(head, "a test");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { unpack_tensors(reader, {}, {}); }),
      "[rpc] expected at most 1 tensors in a message, got 1000; the bytes are damaged, "
      "or of another version");
}

TEST(UnpackTensors, PartsMustFitExactly) {
  const ForgedRecord two{.sizes = {2}};
  EXPECT_TRUE(contains(
      refusal_of_forged(two, {4}),
      "expected 8 bytes for a tensor in a message, got a part of 4;"));
  EXPECT_TRUE(contains(refusal_of_forged(two, {12}), "got a part of 12;"));
  EXPECT_TRUE(contains(
      refusal_of_forged(two, {}),
      "expected memory for each tensor in a message, got 0 parts in all;"));
  EXPECT_TRUE(contains(
      refusal_of_forged(two, {8, 8}),
      "expected memory for 1 tensors in a message, got 2 parts;"));
}

TEST(UnpackTensors, MisplacedMemoryIsRefused) {
  const PackedTensors out = packed({at::ones({2}, at::kDouble)});
  Part part = bytes_part(20);
  part.bytes = part.bytes.subspan(4, 16);
  net::ByteReader head(out.head, "a test");
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { unpack_tensors(head, {part}, {}); }),
      "expected a tensor at a multiple of 8 in a message, got another place;"));
}

// A sparse tensor of sizes [3, 4] whose parts say what they like.
std::string refusal_of_sparse(
    std::vector<std::int64_t> indices,
    bool coalesced,
    int sparse_dims = 2,
    std::vector<std::int64_t> values_sizes = {2},
    at::ScalarType values_dtype = at::kFloat) {
  const at::Tensor where = at::tensor(indices, at::kLong).reshape({2, -1});
  const at::Tensor values = at::ones(values_sizes, values_dtype);
  const PackedTensors inner = packed({where, values});
  net::ByteWriter head;
  head.u32(1);
  ForgedRecord{
      .flags = static_cast<std::uint8_t>(
          kIsDefined | kIsSparse | (coalesced ? kIsCoalesced : 0)),
      .sizes = {3, 4}}
      .write(head);
  head.u8(static_cast<std::uint8_t>(sparse_dims));
  const std::string all = head.take() + inner.head.substr(4);
  return message_of<InvalidArgument>([&] {
    net::ByteReader reader(all, "a test");
    unpack_tensors(reader, inner.parts, {});
  });
}

TEST(UnpackTensors, SparseIndicesThatLeadElsewhereAreRefused) {
  EXPECT_TRUE(contains(
      refusal_of_sparse({0, 3, 0, 0}, false),
      "expected indices of a sparse tensor below [3, 4] in a message, got 3;"));
  EXPECT_TRUE(contains(refusal_of_sparse({0, 1, 4, 0}, false), "got 4;"));
  EXPECT_TRUE(contains(refusal_of_sparse({0, -1, 0, 0}, false), "got -1;"));
  EXPECT_TRUE(contains(refusal_of_sparse({0, 1, 0, INT64_MIN}, false), "got -9223"));
}

TEST(UnpackTensors, APromiseOfOrderMustBeKept) {
  const char* in_order = "the indices of a coalesced tensor in order";
  EXPECT_TRUE(contains(refusal_of_sparse({1, 0, 0, 0}, true), in_order));
  EXPECT_TRUE(contains(refusal_of_sparse({0, 0, 3, 2}, true), in_order));
  EXPECT_TRUE(contains(refusal_of_sparse({1, 1, 2, 2}, true), in_order));
}

TEST(UnpackTensors, SparsePartsThatDoNotFitAreRefused) {
  const std::vector<std::int64_t> good{0, 1, 0, 0};
  EXPECT_TRUE(contains(
      refusal_of_sparse(good, false, 0),
      "expected 1 to 2 sparse dims in a message, got 0;"));
  EXPECT_TRUE(contains(refusal_of_sparse(good, false, 3), "got 3;"));
  EXPECT_TRUE(contains(
      refusal_of_sparse(good, false, 1),
      "expected indices of 1 dims in a message, got [2, 2];"));
  EXPECT_TRUE(contains(
      refusal_of_sparse(good, false, 2, {3}),
      "expected Float values of sizes [2] in a message, got Float of sizes [3];"));
  EXPECT_TRUE(contains(
      refusal_of_sparse(good, false, 2, {2}, at::kDouble), "got Double of sizes [2];"));
}

TEST(UnpackTensors, SparseIndicesMayLieTransposed) {
  const at::Tensor indices =
      at::tensor({0, 0, 1, 2, 2, 3}, at::kLong).reshape({3, 2}).t();
  const at::Tensor tensor = at::sparse_coo_tensor(indices, at::ones({3}), {3, 4});
  ASSERT_FALSE(tensor._indices().is_contiguous());
  EXPECT_TRUE(same_tensor(tensor_trip(tensor).to_dense(), tensor.to_dense()));
}

std::vector<at::Tensor> many_kinds() {
  return {
      counted({2, 3}, at::kFloat).t().requires_grad_(),
      at::Tensor(),
      counted({}, at::kLong),
      at::empty({0, 2}),
      at::sparse_coo_tensor(
          at::tensor({0, 2, 1, 3}, at::kLong).reshape({2, 2}),
          counted({2, 2}, at::kDouble),
          {3, 4, 2})
          .coalesce()};
}

// Every tensor that comes out must lie inside the parts, and its ends be readable.
void expect_inside(const at::Tensor& tensor, const std::vector<Part>& parts) {
  if (tensor.layout() == at::kSparse) {
    expect_inside(tensor._indices(), parts);
    expect_inside(tensor._values(), parts);
    return;
  }
  if (!tensor.defined() || tensor.numel() == 0)
    return;
  const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
  std::size_t last = 0;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim)
    last += static_cast<std::size_t>((tensor.size(dim) - 1) * tensor.stride(dim));
  const std::byte* end = begin + (last + 1) * tensor.element_size();
  bool inside = false;
  for (const Part& part : parts)
    inside = inside || (begin >= part.bytes.data() &&
                        end <= part.bytes.data() + part.bytes.size());
  EXPECT_TRUE(inside) << tensor.sizes() << tensor.strides();
}

// Whether it was refused.
bool try_damaged(const std::string& bytes, const std::vector<Part>& parts) {
  net::ByteReader head(bytes, "a test");
  try {
    for (const at::Tensor& tensor : unpack_tensors(head, parts, {}))
      expect_inside(tensor, parts);
    return false;
  } catch (const InvalidArgument&) {
    return true;
  }
}

TEST(UnpackTensors, FlippedBitsNeverLeadOutside) {
  const PackedTensors out = packed(many_kinds());
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * out.head.size(); ++bit) {
    std::string damaged = out.head;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    refused += try_damaged(damaged, out.parts) ? 1 : 0;
  }
  EXPECT_GT(refused, static_cast<int>(6 * out.head.size()));
}

TEST(UnpackTensors, FlippedBitsOfSparseMemoryNeverLeadOutside) {
  const PackedTensors out = packed({many_kinds().back()});
  ASSERT_EQ(out.parts.size(), 2u);
  for (std::size_t bit = 0; bit < 8 * out.parts[0].bytes.size(); ++bit) {
    std::vector<Part> parts{received(out.parts[0]), received(out.parts[1])};
    parts[0].bytes[bit / 8] ^= std::byte{1} << bit % 8;
    net::ByteReader head(out.head, "a test");
    try {
      const at::Tensor tensor = unpack_tensors(head, parts, {})[0];
      const at::Tensor largest = std::get<0>(tensor._indices().max(1));
      EXPECT_LT(largest[0].item<std::int64_t>(), 3);
      EXPECT_LT(largest[1].item<std::int64_t>(), 4);
    } catch (const InvalidArgument&) {
    }
  }
}

TEST(UnpackTensors, CutHeadsAreRefused) {
  const PackedTensors out = packed(many_kinds());
  EXPECT_FALSE(try_damaged(out.head, out.parts));
  for (std::size_t size = 0; size < out.head.size(); ++size)
    EXPECT_TRUE(try_damaged(out.head.substr(0, size), out.parts)) << size;
}

}  // namespace
}  // namespace trireme::rpc
