// The schedules whose ranks are made together.
#include "helpers.h"
#include "trireme/sched/generators.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

using Rows = std::vector<std::string>;

TEST(GeneratorsGlobal, InterleavedZeroBubble) {
  EXPECT_EQ(
      rows_of(generate(
          "InterleavedZeroBubble",
          {.ranks = 2, .microbatches = 4, .stages_per_rank = 2})),
      (Rows{
          "0F0,0F1,2F0,,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2,"
          "2I3,"
          "2W3,0I2,0W2,0I3,0W3",
          ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,"
          "3W2,"
          "1I2,3W3,1I3,1W2,1W3"}));
}

TEST(GeneratorsGlobal, VHalf) {
  EXPECT_EQ(
      rows_of(generate("V-Half", {.ranks = 2, .microbatches = 3})),
      (Rows{
          "0F0,3F0,0F1,3I0,3W0,3F1,0F2,0I0,3I1,0W0,3W1,3F2,0I1,3I2,0W1,3W2,0I2,0W2",
          "1F0,2F0,1F1,2F1,2I0,1I0,2W0,1F2,1W0,2F2,2I1,1I1,2W1,1W1,2I2,1I2,2W2,1W2"}));
}

TEST(GeneratorsGlobal, AllSizesAreComplete) {
  for (const char* name : {"V-Half", "V-Min"})
    for (int P = 1; P <= 17; ++P)
      for (int M = 1; M <= 3 * P; ++M) {
        const Schedule schedule = generate(name, {.ranks = P, .microbatches = M});
        const auto flaw = find_flaw(schedule);
        ASSERT_FALSE(flaw) << name << " P" << P << " M" << M << ": " << flaw->what;
      }
}

}  // namespace
}  // namespace trireme::sched
