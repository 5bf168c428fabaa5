// Any bytes as a message: either it is refused, or every tensor lies inside the bytes.
#include <cstring>
#include <memory>

#include <ATen/Functions.h>

#include "trireme/comm/message.h"
#include "trireme/core/error.h"

namespace {

volatile unsigned char sink;

/// Reads every byte that a tensor claims, so that AddressSanitizer sees where it
/// points.
class Touch : public trireme::comm::TensorMaker {
 public:
  at::Tensor make(std::byte* data, const trireme::comm::TensorForm& form) override {
    size_t bytes = c10::elementSize(form.dtype);
    for (const int64_t size : form.sizes)
      bytes *= static_cast<size_t>(size);
    // The last element that the strides lead to is one of these bytes too.
    size_t last = 0;
    for (size_t i = 0; i < form.sizes.size() && bytes > 0; ++i)
      last += static_cast<size_t>((form.sizes[i] - 1) * form.strides[i]);
    if (bytes > 0)
      sink = std::to_integer<unsigned char>(data[last * c10::elementSize(form.dtype)]);
    for (size_t i = 0; i < bytes; ++i)
      sink = std::to_integer<unsigned char>(data[i]);
    return at::from_blob(
        data, form.sizes, form.strides, at::TensorOptions().dtype(form.dtype));
  }
};

}  // namespace

// A valid beginning teaches the fuzzer the format sooner than chance would.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A buffer of exactly this size, aligned as blocks are, with its end guarded.
  const std::unique_ptr<std::byte[]> copy(new std::byte[size]);
  std::memcpy(copy.get(), data, size);
  const uint32_t magic = 0x324d5254;
  if (size >= sizeof magic)
    std::memcpy(copy.get(), &magic, sizeof magic);
  Touch touch;
  try {
    trireme::comm::decode({copy.get(), size}, touch);
  } catch (const trireme::InvalidArgument&) {
  }
  return 0;
}
