#include "trireme/comm/per_rank.h"

#include <cstddef>
#include <span>

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

TEST(PerRank, HoldsFewAndMany) {
  for (const int size : {1, 16, 17, 300}) {
    PerRank<int> values(size);
    for (int i = 0; i < size; ++i) {
      EXPECT_EQ(values[i], 0);
      values[i] = i;
    }
    const std::span<const int> all = values;
    EXPECT_EQ(all.size(), static_cast<size_t>(size));
    EXPECT_EQ(all.back(), size - 1);
  }
}

TEST(PerRank, AllocatesNothingForAFewRanks) {
  const auto lies_within = [](const PerRank<int>& values) {
    const auto* object = reinterpret_cast<const std::byte*>(&values);
    const auto* first = reinterpret_cast<const std::byte*>(values.data());
    return first >= object && first < object + sizeof values;
  };
  for (const int size : {1, 16, 17, 300})
    EXPECT_EQ(lies_within(PerRank<int>(size)), size <= 16) << size;
}

}  // namespace
}  // namespace trireme::comm
