// Tensors over a received buffer.
#pragma once
#include <memory>

#include <ATen/ops/from_blob.h>

#include "trireme/comm/message.h"
#include "trireme/core/buffer_pool.h"

namespace trireme::comm {

/// Makes tensors that keep the buffer in which they lie.
class BufferTensors : public TensorMaker {
 public:
  explicit BufferTensors(Buffer buffer)
      : buffer_(std::make_shared<Buffer>(std::move(buffer))) {}
  at::Tensor make(std::byte* data, const TensorForm& form) override {
    return at::from_blob(
        data,
        form.sizes,
        form.strides,
        [keep = buffer_](void*) {},
        at::TensorOptions().dtype(form.dtype));
  }

 private:
  std::shared_ptr<Buffer> buffer_;
};

}  // namespace trireme::comm
