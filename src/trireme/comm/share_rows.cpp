#include "trireme/comm/share_rows.h"

#include "trireme/comm/per_rank.h"

namespace trireme::comm {

std::vector<int64_t> share_rows(
    Engine& engine,
    CollectiveKind kind,
    std::vector<int64_t> row,
    const Deadline& deadline) {
  const auto ranks = static_cast<size_t>(engine.size());
  std::vector<int64_t> rows(row.size() * ranks);
  PerRank<Piece> take(ranks);
  for (size_t k = 0; k < ranks; ++k)
    take[k] = {
        reinterpret_cast<std::byte*>(rows.data() + k * row.size()),
        row.size() * sizeof(int64_t)};
  const Piece give{
      reinterpret_cast<std::byte*>(row.data()), row.size() * sizeof(int64_t)};
  engine.run(
      {.kind = kind,
       .dtype = c10::ScalarType::Long,
       .count = static_cast<int64_t>(row.size()),
       .give = {&give, 1},
       .take = take},
      deadline);
  return rows;
}

}  // namespace trireme::comm
