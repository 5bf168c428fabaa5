#include "trireme/dist_autograd/row_spread.h"

#include <algorithm>

#include <ATen/Functions.h>

namespace trireme::dist_autograd {

// How many rows of a server have ids below that one.
std::int64_t RowSpread::below(std::int64_t server, std::int64_t id) const {
  if (kind == Spread::Remainder)
    return (std::max<std::int64_t>(id - server, 0) + servers - 1) / servers;
  return std::clamp<std::int64_t>(id - server * length(), 0, length());
}

std::int64_t RowSpread::count(std::int64_t server) const {
  return below(server, rows);
}

at::Tensor RowSpread::server_of(const at::Tensor& ids) const {
  return kind == Spread::Remainder ? at::remainder(ids, servers)
                                   : at::div(ids, length(), "floor");
}

at::Tensor RowSpread::number_of(const at::Tensor& ids) const {
  return kind == Spread::Remainder ? at::div(ids, servers, "floor")
                                   : at::remainder(ids, length());
}

at::Tensor RowSpread::ids_of(
    std::int64_t server, std::int64_t first, std::int64_t count) const {
  const at::Tensor numbers = at::arange(first, first + count, at::kLong);
  return kind == Spread::Remainder ? numbers * servers + server
                                   : numbers + server * length();
}

std::pair<std::int64_t, std::int64_t> RowSpread::part_of(
    std::int64_t server, std::int64_t first, std::int64_t count) const {
  const std::int64_t begin = below(server, first);
  return {begin, below(server, first + count) - begin};
}

}  // namespace trireme::dist_autograd
