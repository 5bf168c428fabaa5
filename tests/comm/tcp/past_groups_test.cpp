#include "trireme/comm/tcp/past_groups.h"

#include <gtest/gtest.h>

#include "trireme/comm/group_id.h"

namespace trireme::comm {
namespace {

TEST(PastGroups, HasWhatWasAddedAndNothingElse) {
  constexpr int kRanks = 3;
  PastGroups past(kRanks);
  GroupIds of_first(0, kRanks), of_last(2, kRanks);
  std::vector<uint32_t> over, others{0};
  for (int i = 0; i < 50; ++i) {
    (i % 3 == 0 ? over : others).push_back(of_first.next());
    (i % 2 == 0 ? over : others).push_back(of_last.next());
  }
  for (const uint32_t group : over)
    past.add(group);
  for (const uint32_t group : over)
    EXPECT_TRUE(past.contains(group)) << group;
  for (const uint32_t group : others)
    EXPECT_FALSE(past.contains(group)) << group;
  EXPECT_FALSE(past.contains(of_first.next()));
  past.add(0);
  EXPECT_TRUE(past.contains(0));
}

}  // namespace
}  // namespace trireme::comm
