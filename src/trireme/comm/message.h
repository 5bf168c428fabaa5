// What travels through a channel: a list of optional tensors with a small header.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::comm {

/// Tensors of any shapes and dtypes, each of which may be absent (undefined), and a
/// word and bytes for the program's own use. The receiver needs no advance knowledge.
/// Tensors arrive with their strides, channels_last included; one with gaps between its
/// elements may arrive without them, its dims in the same order.
///
///     channel.send({.tensors = {activation, at::Tensor()}, .header = {.word = step}});
struct Message {
  struct Header {
    /// Free for the program: a step, a kind, a token count.
    int64_t word = 0;
    /// A few bytes more, if a word is not enough; at most 4,096.
    std::string bytes;
  };
  std::vector<at::Tensor> tensors;
  Header header;
};

/// Where each tensor of an encoded message stands.
struct MessageLayout {
  /// Bytes of the encoded description, padded to kMessageAlignment.
  size_t description_bytes = 0;
  /// The whole message: description, then every tensor's elements, each aligned.
  size_t total_bytes = 0;
};

inline constexpr size_t kMessageAlignment = 64;

/// Checks that every tensor can travel (dense, on the CPU) and measures the message.
MessageLayout measure(const Message& message);

/// Writes the message into `out`, which has layout.total_bytes and is aligned.
void encode(const Message& message, const MessageLayout& layout, std::byte* out);

/// A tensor but for its elements. The strides leave no gaps.
struct TensorForm {
  at::IntArrayRef sizes;
  at::IntArrayRef strides;
  c10::ScalarType dtype;
};

/// Makes a tensor over bytes of the encoded message; decode() calls it once a tensor.
class TensorMaker {
 public:
  virtual ~TensorMaker() = default;
  virtual at::Tensor make(std::byte* data, const TensorForm& form) = 0;
};

/// Reads an encoded message. Nothing in it is trusted: InvalidArgument on anything that
/// does not fit into `bytes`.
Message decode(std::span<std::byte> bytes, TensorMaker& maker);

}  // namespace trireme::comm
