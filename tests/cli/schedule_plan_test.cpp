// Which schedule suits.
#include "schedule_helpers.h"

namespace trireme::cli {
namespace {

TEST(SchedulePlan, AsTextAndJson) {
  const Answer text = ask({"plan", "--ranks", "2", "--microbatches", "4"});
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(contains(text.out.substr(0, text.out.find('\n')), " a microbatch, "));
  const Json json = Json::parse(
      ask({"plan", "--ranks", "2", "--memory-limit", "1", "--format", "json"}).out);
  EXPECT_TRUE(json[0].contains("time_per_microbatch"));
  EXPECT_FALSE(json.back().at("fits").get<bool>());
}

TEST(SchedulePlan, FailsWhereNothingFits) {
  for (const char* format : {"text", "json"}) {
    const Answer answer = ask(
        {"plan",
         "--ranks",
         "2",
         "--microbatches",
         "4",
         "--memory-limit",
         "0.1",
         "--format",
         format});
    EXPECT_EQ(answer.code, 1) << format;
    EXPECT_TRUE(
        answer.err.starts_with("trireme: [cli] nothing fits into 0.1 bytes a rank; "))
        << answer.err;
    EXPECT_TRUE(answer.err.ends_with("; raise --memory-limit\n")) << answer.err;
    EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1);
    EXPECT_TRUE(contains(answer.out, "InterleavedZeroBubble")) << answer.out;
    EXPECT_FALSE(contains(answer.out, "nothing fits"));
  }
}

TEST(SchedulePlan, SaysWhereAutoWasLeftOut) {
  std::vector<std::string> words{"plan", "--ranks", "2", "--microbatches", "10000"};
  const std::string note =
      "Auto was not tried for 7 of 7 sizes, which would take long: they have more than "
      "8192 stages x microbatches\n";
  Answer answer = ask(words);
  EXPECT_EQ(answer.code, 0);
  EXPECT_TRUE(answer.out.ends_with("\n\n" + note)) << answer.out;
  EXPECT_EQ(answer.err, "");
  // The JSON stays a list of ways.
  words.insert(words.end(), {"--format", "json"});
  answer = ask(words);
  EXPECT_TRUE(Json::parse(answer.out).is_array());
  EXPECT_EQ(answer.err, "trireme: [cli] " + note);
}

}  // namespace
}  // namespace trireme::cli
