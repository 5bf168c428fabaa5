#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "tensor_trip.h"
#include "trireme/core/error.h"
#include "trireme/rpc/values.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using testing::contains;
using testing::message_of;

struct Layout {
  const char* name;
  std::function<at::Tensor(at::ScalarType)> make;
  bool keeps_strides = true;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> layouts{
      {"contiguous",
       [](auto dtype) {
         return counted({2, 3}, dtype);
       }},
      {"scalar", [](auto dtype) { return counted({}, dtype); }},
      {"one", [](auto dtype) { return counted({1}, dtype); }},
      {"transposed",
       [](auto dtype) {
         return counted({2, 3, 4}, dtype).transpose(0, 2);
       }},
      {"channels_last",
       [](auto dtype) {
         return counted({2, 4, 5, 3}, dtype).permute({0, 3, 1, 2});
       }},
      {"channels_last_of_one",
       [](auto dtype) {
         return counted({1, 4, 5, 3}, dtype).permute({0, 3, 1, 2});
       }},
      {"offset",
       [](auto dtype) {
         return counted({4, 3}, dtype).narrow(0, 2, 2);
       }},
      {"sliced",
       [](auto dtype) {
         return counted({4, 6}, dtype).slice(1, 1, 5, 2);
       },
       false},
      {"sliced_transposed",
       [](auto dtype) {
         return counted({4, 6}, dtype).t().narrow(0, 1, 3);
       },
       false},
      {"expanded",
       [](auto dtype) {
         return counted({3, 1}, dtype).expand({3, 5});
       },
       false},
      {"empty", [](auto dtype) { return counted({0}, dtype); }},
      {"empty_dims",
       [](auto dtype) {
         return counted({3, 0, 2}, dtype);
       }},
  };
  return layouts;
}

TEST(PackTensors, EveryDtypeInEveryLayout) {
  for (const at::ScalarType dtype : packed_dtypes())
    for (const Layout& layout : layouts()) {
      SCOPED_TRACE(text(c10::toString(dtype), " ", layout.name));
      const at::Tensor tensor = layout.make(dtype);
      const at::Tensor arrived = tensor_trip(tensor);
      EXPECT_TRUE(same_tensor(arrived, tensor));
      EXPECT_EQ(
          arrived.strides(),
          layout.keeps_strides ? tensor.strides() : tensor.contiguous().strides());
    }
}

TEST(PackTensors, DenseMemoryIsNotCopied) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.name);
    const at::Tensor tensor = layout.make(at::kFloat);
    const PackedTensors out = packed({tensor});
    if (tensor.numel() == 0) {
      EXPECT_TRUE(out.parts.empty());
      continue;
    }
    ASSERT_EQ(out.parts.size(), 1u);
    EXPECT_EQ(
        static_cast<const void*>(out.parts[0].bytes.data()) == tensor.const_data_ptr(),
        layout.keeps_strides);
    EXPECT_EQ(out.parts[0].bytes.size(), static_cast<std::size_t>(tensor.numel()) * 4);
  }
}

TEST(PackTensors, APartHoldsItsMemoryAndNoGraph) {
  std::weak_ptr<int> graph;
  PackedTensors out;
  {
    auto cargo = std::make_shared<int>(1);
    graph = cargo;
    const at::Tensor leaf = at::ones({1000}).requires_grad_();
    const at::Tensor tensor = leaf * 2;
    tensor.register_hook([cargo](const at::Tensor&) {});
    out = packed({tensor});
  }
  EXPECT_TRUE(graph.expired());
  const at::Tensor arrived = unpacked(out)[0];
  EXPECT_TRUE(arrived.eq(2).all().item<bool>());
}

TEST(PackTensors, RequiresGradTravelsAndTheGraphDoesNot) {
  const at::Tensor leaf = at::ones({2, 2}).requires_grad_();
  for (const at::Tensor& tensor :
       {leaf, leaf * 2, (leaf * 2).t(), leaf.narrow(1, 0, 1)}) {
    const at::Tensor arrived = tensor_trip(tensor);
    EXPECT_TRUE(same_tensor(arrived, tensor));
    EXPECT_TRUE(arrived.requires_grad());
    EXPECT_TRUE(arrived.is_leaf());
  }
  EXPECT_FALSE(tensor_trip(leaf.detach()).requires_grad());
  EXPECT_TRUE(tensor_trip(at::empty({0}).requires_grad_()).requires_grad());
}

TEST(PackTensors, UndefinedTensorsKeepTheirPlace) {
  const auto arrived = unpacked(packed({at::Tensor(), at::ones({1}), at::Tensor()}));
  ASSERT_EQ(arrived.size(), 3u);
  EXPECT_FALSE(arrived[0].defined());
  EXPECT_TRUE(same_tensor(arrived[1], at::ones({1})));
  EXPECT_FALSE(arrived[2].defined());
  EXPECT_TRUE(unpacked(packed({})).empty());
}

TEST(PackTensors, LazyBitsAreResolved) {
  const at::Tensor complex =
      counted({2, 2}, at::kComplexFloat) * c10::complex<float>(1, 2);
  for (const at::Tensor& tensor :
       {at::conj(complex),
        at::imag(at::conj(complex)),
        at::_efficientzerotensor({2, 2})}) {
    const at::Tensor arrived = tensor_trip(tensor);
    EXPECT_TRUE(same_tensor(arrived, tensor + at::zeros({})));
    EXPECT_FALSE(arrived.is_conj() || arrived.is_neg() || arrived._is_zerotensor());
  }
}

TEST(PackTensors, StridesOfSingleDimsDoNoHarm) {
  const at::Tensor tensor = at::ones({1, 1000}).narrow(1, 0, 1);  // strides 1000, 1
  EXPECT_TRUE(same_tensor(tensor_trip(tensor), tensor));
  const at::Tensor odd = at::ones({3}).as_strided({1, 3}, {1 << 30, 1});
  EXPECT_TRUE(same_tensor(tensor_trip(odd), odd));
}

at::Tensor sparse_matrix(bool coalesced) {
  const at::Tensor indices = at::tensor({2, 0, 2, 1, 3, 1}, at::kLong).reshape({2, 3});
  const at::Tensor tensor =
      at::sparse_coo_tensor(indices, counted({3}, at::kDouble), {3, 4});
  return coalesced ? tensor.coalesce() : tensor;
}

TEST(PackTensors, SparseTensorsTravel) {
  for (const bool coalesced : {false, true}) {
    const at::Tensor tensor = sparse_matrix(coalesced);
    const at::Tensor arrived = tensor_trip(tensor);
    EXPECT_EQ(arrived.layout(), at::kSparse);
    EXPECT_EQ(arrived.is_coalesced(), coalesced);
    EXPECT_TRUE(same_tensor(arrived._indices(), tensor._indices()));
    EXPECT_TRUE(same_tensor(arrived._values(), tensor._values()));
    EXPECT_TRUE(same_tensor(arrived.to_dense(), tensor.to_dense()));
  }
}

TEST(PackTensors, SparseTensorsOfEveryDtype) {
  for (const at::ScalarType dtype : packed_dtypes()) {
    SCOPED_TRACE(c10::toString(dtype));
    const at::Tensor tensor = at::_sparse_coo_tensor_unsafe(
        at::tensor({0, 2}, at::kLong).reshape({1, 2}),
        counted({2, 3}, dtype),
        {3, 3},
        at::TensorOptions().dtype(dtype),
        true);
    const at::Tensor arrived = tensor_trip(tensor);
    EXPECT_EQ(arrived.dense_dim(), 1);
    EXPECT_EQ(arrived.sizes(), tensor.sizes());
    EXPECT_TRUE(same_tensor(arrived._values(), tensor._values()));
  }
}

TEST(PackTensors, SparseTensorsMayBeEmptyOrRequireGradients) {
  const at::Tensor empty = at::sparse_coo_tensor({5, 6}, at::kFloat);
  EXPECT_EQ(tensor_trip(empty)._nnz(), 0);
  EXPECT_EQ(tensor_trip(empty).sizes(), empty.sizes());
  EXPECT_EQ(tensor_trip(empty).is_coalesced(), empty.is_coalesced());
  at::Tensor leaf = sparse_matrix(true).requires_grad_();
  EXPECT_TRUE(tensor_trip(leaf).requires_grad());
  EXPECT_TRUE(
      same_tensor(tensor_trip(leaf).detach().to_dense(), leaf.detach().to_dense()));
}

TEST(PackTensors, ANeighbourSharesNothing) {
  const at::Tensor whole = at::arange(4, at::kFloat);
  const auto arrived = unpacked(packed({whole, whole}));
  arrived[0].add_(1);
  EXPECT_TRUE(same_tensor(arrived[1], whole));
}

TEST(PackTensors, WhatCannotTravelIsRefusedByName) {
  const at::Tensor csr = at::eye(3).to_sparse_csr();
  const at::Tensor meta = at::empty({2}, at::TensorOptions().device(at::kMeta));
  const at::Tensor quantized =
      at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8);
  const at::Tensor bits = at::empty({2}, at::kBits8);
  const at::Tensor deep = at::ones(std::vector<std::int64_t>(65, 1));
  const at::Tensor no_sparse_dims = at::_sparse_coo_tensor_unsafe(
      at::empty({0, 1}, at::kLong), at::ones({1}), {}, at::kFloat);
  const auto refusal = [](const at::Tensor& tensor) {
    return message_of<NotSupported>([&] { packed({at::ones({1}), tensor}); });
  };
  EXPECT_EQ(
      refusal(meta),
      "[rpc] expected dense or sparse COO tensors on the CPU, got one on meta as "
      "tensor 1; convert it before it is sent");
  EXPECT_TRUE(contains(refusal(csr), "got one of layout SparseCsr as tensor 1"));
  EXPECT_TRUE(contains(refusal(quantized), "got a quantized one of QInt8"));
  EXPECT_TRUE(contains(refusal(bits), "got one of Bits8"));
  EXPECT_TRUE(contains(refusal(deep), "got one of 65 dims"));
  EXPECT_TRUE(contains(refusal(no_sparse_dims), "a sparse one without sparse dims"));
}

}  // namespace
}  // namespace trireme::rpc
