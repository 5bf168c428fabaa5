// Any bytes as the arguments of a call, as its tensors, and as all of its payload: they
// are refused, or every tensor lies inside the bytes, and what was read can be sent
// again.
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Functions.h>

#include "trireme/core/error.h"
#include "trireme/rpc/call_payload.h"
#include "trireme/rpc/signature.h"
#include "trireme/rpc/values.h"

namespace {

struct Leaf {
  int number = 0;
  std::vector<bool> bits;
};
struct Tree {
  std::string name;
  std::vector<Tree> children;
  std::optional<Leaf> leaf;
};

}  // namespace

template <>
struct trireme::rpc::Fields<Leaf> {
  static constexpr auto name = "Leaf";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&Leaf::number, &Leaf::bits);
};
template <>
struct trireme::rpc::Fields<Tree> {
  static constexpr auto name = "Tree";
  static constexpr int version = 2;
  static constexpr auto members = std::tuple(&Tree::name, &Tree::children, &Tree::leaf);
};

namespace {

using namespace trireme;
using namespace trireme::rpc;

volatile unsigned char sink;

void must(bool condition) {
  if (!condition)
    __builtin_trap();
}

/// Memory of its own for a part, whose end is guarded.
Part part_of(std::string_view bytes) {
  const auto memory = std::make_shared<std::vector<std::byte>>(bytes.size());
  if (!bytes.empty())
    std::memcpy(memory->data(), bytes.data(), bytes.size());
  return {.bytes = *memory, .keep = memory};
}

/// Reads every byte that a tensor claims, so that AddressSanitizer sees where it
/// points.
void touch(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.layout() == at::kSparse) {
    touch(tensor._indices());
    touch(tensor._values());
  } else if (tensor.defined() && tensor.numel() > 0) {
    const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
    std::size_t last = 0;
    for (std::int64_t dim = 0; dim < tensor.dim(); ++dim)
      last += static_cast<std::size_t>((tensor.size(dim) - 1) * tensor.stride(dim));
    for (std::size_t i = 0; i < tensor.nbytes(); ++i)
      sink = bytes[i];
    sink = bytes[last * tensor.element_size()];
  }
}

/// Reads arguments; what was read can be sent again, and then takes as many bytes each
/// time.
template <class... Args>
void try_arguments(const Values& values) {
  try {
    ValueReader reader(values, "fuzz");
    const auto arguments = read_arguments<Args...>(reader);
    const auto write = [](const auto&... args) {
      ValueWriter writer;
      write_arguments(writer, args...);
      return writer.take();
    };
    const Values again = std::apply(write, arguments);
    ValueReader second(again, "fuzz");
    const Values third = std::apply(write, read_arguments<Args...>(second));
    must(third.bytes.size() == again.bytes.size());
  } catch (const InvalidArgument&) {
  }
}

void try_all_arguments(const Values& values, int kind) {
  switch (kind % 6) {
    case 0:
      return try_arguments<int, bool, double, std::string>(values);
    case 1:
      return try_arguments<std::vector<std::int16_t>, std::array<float, 3>>(values);
    case 2:
      return try_arguments<std::vector<std::vector<std::string>>>(values);
    case 3:
      return try_arguments<std::map<std::string, std::vector<bool>>, at::Tensor>(
          values);
    case 4:
      return try_arguments<Tree>(values);
    default:
      return try_arguments<
          std::optional<std::chrono::milliseconds>,
          std::vector<std::tuple<std::uint8_t, at::Tensor>>,
          std::unordered_map<int, std::pair<Reference, std::monostate>>>(values);
  }
}

/// What stands before and behind the arguments; what was read can be sent again.
void try_payload(const std::string& bytes, const std::vector<Part>& parts) {
  const Payload payload{.bytes = bytes, .parts = parts, .references = {}};
  try {
    const CallHead head = unpack_call_head(payload);
    const CallHead again = unpack_call_head(pack_call(head, {}));
    must(again.function == head.function && again.note == head.note);
    for (const at::Tensor& tensor :
         unpack_arguments(payload, {.tensor_bytes = 1 << 16}).tensors)
      touch(tensor);
  } catch (const InvalidArgument&) {
  }
  try {
    const Fault fault = unpack_fault(payload);
    must(unpack_fault(pack_fault(fault)).text == fault.text);
  } catch (const InvalidArgument&) {
  }
}

/// The next piece: a byte for its length, and as many.
std::string_view take_piece(std::string_view& bytes) {
  if (bytes.empty())
    return {};
  const std::size_t length = static_cast<unsigned char>(bytes[0]);
  const std::string_view piece = bytes.substr(1, length);
  bytes.remove_prefix(1 + piece.size());
  return piece;
}

}  // namespace

// The head of the tensors; up to three parts; a 0; a byte for the signature; the bytes
// of the values.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string head(take_piece(bytes));
  std::vector<Part> parts;
  while (parts.size() < 3 && !bytes.empty() && bytes[0] != 0)
    parts.push_back(part_of(take_piece(bytes)));
  if (!bytes.empty())
    bytes.remove_prefix(1);
  Values values{.bytes = std::string(bytes.substr(bytes.empty() ? 0 : 1))};
  const int kind = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]);
  try {
    net::ByteReader reader(head, "fuzz");
    values.tensors = unpack_tensors(reader, parts, {.tensor_bytes = 1 << 16});
    for (const at::Tensor& tensor : values.tensors)
      touch(tensor);
  } catch (const InvalidArgument&) {
  }
  values.references.resize(static_cast<std::size_t>(kind / 6 % 3));
  try_all_arguments(values, kind);
  try_payload(values.bytes, parts);
  return 0;
}
