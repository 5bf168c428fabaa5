// Which server has which row of a table.
#pragma once
#include <cstdint>
#include <utility>

#include <ATen/core/Tensor.h>

namespace trireme::dist_autograd {

enum class Spread {
  /// Row i is with server i mod servers: busy rows that are neighbours are shared out.
  Remainder,
  /// Each server has rows that follow one another.
  Range,
};

/// Rows 0 … rows-1 over servers 0 … servers-1. A server counts its own rows from 0, in
/// the order of their ids.
struct RowSpread {
  std::int64_t rows = 0;
  std::int64_t servers = 1;
  Spread kind = Spread::Remainder;

  /// How many a server has; with few rows some servers may have none.
  std::int64_t count(std::int64_t server) const;
  /// The server of each id, and its number there.
  at::Tensor server_of(const at::Tensor& ids) const;
  at::Tensor number_of(const at::Tensor& ids) const;
  /// The ids of a server's rows first … first+count-1.
  at::Tensor ids_of(std::int64_t server, std::int64_t first, std::int64_t count) const;
  /// What a server has of the ids first … first+count-1: where its own numbers begin,
  /// and how many they are.
  std::pair<std::int64_t, std::int64_t> part_of(
      std::int64_t server, std::int64_t first, std::int64_t count) const;

 private:
  std::int64_t length() const { return (rows + servers - 1) / servers; }
  std::int64_t below(std::int64_t server, std::int64_t id) const;
};

}  // namespace trireme::dist_autograd
