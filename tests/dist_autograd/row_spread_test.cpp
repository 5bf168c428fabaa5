#include "trireme/dist_autograd/row_spread.h"

#include <set>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::dist_autograd {
namespace {

// Each row is with one server, under one number, and both ways agree.
TEST(RowSpread, SharesAllRows) {
  for (const Spread kind : {Spread::Remainder, Spread::Range})
    for (const std::int64_t rows : {1, 2, 7, 12})
      for (const std::int64_t servers : {1, 2, 3, 5}) {
        SCOPED_TRACE(text(static_cast<int>(kind), " ", rows, " ", servers));
        const RowSpread spread{.rows = rows, .servers = servers, .kind = kind};
        std::set<std::int64_t> seen;
        for (std::int64_t server = 0; server < servers; ++server) {
          const std::int64_t count = spread.count(server);
          const at::Tensor ids = spread.ids_of(server, 0, count);
          EXPECT_TRUE(at::equal(spread.server_of(ids), at::full_like(ids, server)));
          EXPECT_TRUE(at::equal(spread.number_of(ids), at::arange(count)));
          for (std::int64_t i = 0; i < count; ++i)
            EXPECT_TRUE(seen.insert(ids[i].item<std::int64_t>()).second);
        }
        EXPECT_EQ(static_cast<std::int64_t>(seen.size()), rows);
        EXPECT_EQ(*seen.rbegin(), rows - 1);
      }
}

// What part_of() names are the ids of that range, and no others.
TEST(RowSpread, PartsOfRanges) {
  for (const Spread kind : {Spread::Remainder, Spread::Range})
    for (const std::int64_t servers : {1, 2, 3}) {
      const RowSpread spread{.rows = 11, .servers = servers, .kind = kind};
      for (std::int64_t first = 0; first <= 11; ++first)
        for (std::int64_t count = 0; first + count <= 11; ++count) {
          std::vector<at::Tensor> ids;
          for (std::int64_t server = 0; server < servers; ++server) {
            const auto [begin, length] = spread.part_of(server, first, count);
            ids.push_back(spread.ids_of(server, begin, length));
          }
          EXPECT_TRUE(at::equal(
              std::get<0>(at::sort(at::cat(ids))), at::arange(first, first + count)))
              << first << " " << count;
        }
    }
}

}  // namespace
}  // namespace trireme::dist_autograd
