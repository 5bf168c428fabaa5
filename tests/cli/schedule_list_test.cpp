// All schedules, by name.
#include "schedule_helpers.h"
#include "trireme/sched/generate.h"

namespace trireme::cli {
namespace {

TEST(ScheduleList, NamesAll) {
  const Answer text = ask({"list"});
  EXPECT_EQ(text.code, 0);
  for (const auto& info : sched::all_schedules())
    EXPECT_TRUE(contains(text.out, info.name));
  const Json json = Json::parse(ask({"list", "--format", "json"}).out);
  EXPECT_EQ(json.size(), sched::all_schedules().size() + 1);
  EXPECT_EQ(json.back().at("name"), "Auto");
  EXPECT_EQ(json[0].at("name"), "ForwardOnly");
}

}  // namespace
}  // namespace trireme::cli
