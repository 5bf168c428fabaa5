#include "trireme/train/share_text.h"

#include <cstring>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"

namespace trireme::train {

std::string share_text(const comm::Group& group, const std::string& mine) {
  at::Tensor size = at::full({1}, static_cast<int64_t>(mine.size()), at::kLong);
  comm::broadcast(group, size, 0);
  if (size.item<int64_t>() == 0)
    return {};
  at::Tensor bytes = at::zeros({size.item<int64_t>()}, at::kByte);
  if (group.rank() == 0)
    std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  comm::broadcast(group, bytes, 0);
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

}  // namespace trireme::train
