#include "trireme/comm/gather_rows.h"

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"

namespace trireme::comm {

std::vector<std::vector<int64_t>> gather_rows(
    const Group& group, const std::vector<int64_t>& mine) {
  std::vector<at::Tensor> all;
  all_gather_uneven(group, all, at::tensor(mine, at::kLong));
  std::vector<std::vector<int64_t>> rows;
  for (const at::Tensor& theirs : all) {
    const at::Tensor row = theirs.contiguous();
    const auto* first = row.const_data_ptr<int64_t>();
    rows.emplace_back(first, first + row.numel());
  }
  return rows;
}

}  // namespace trireme::comm
