#include "trireme/rpc/values.h"

#include "trireme/core/error.h"

namespace trireme::rpc {

at::Tensor ValueReader::tensor() {
  if (tensor_ == values_.tensors.size())
    throw InvalidArgument(text(
        "[rpc] expected one more tensor in ",
        what_,
        ", got ",
        tensor_,
        " in all; both sides need the same version of the program"));
  return values_.tensors[tensor_++];
}

}  // namespace trireme::rpc
