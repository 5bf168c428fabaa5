// How long a schedule takes, and why.
#include "schedule_helpers.h"

namespace trireme::cli {
namespace {

TEST(ScheduleSimulate, TakesCosts) {
  const Json json = Json::parse(ask({"simulate",
                                     "ZB-H1",
                                     "--ranks",
                                     "4",
                                     "--microbatches",
                                     "8",
                                     "--format",
                                     "json",
                                     "--forward",
                                     "2",
                                     "--input-grad",
                                     "2",
                                     "--weight-grad",
                                     "1"})
                                    .out);
  EXPECT_EQ(json.at("wall_bubble"), 3 * 3);
  EXPECT_EQ(json.at("span_bubble"), 3 * 3);
  EXPECT_EQ(json.at("ideal"), 8 * 5);
  EXPECT_EQ(json.at("makespan"), 49);
  EXPECT_EQ(json.at("busy"), Json({40, 40, 40, 40}));
  EXPECT_EQ(json.at("idle"), Json({9, 9, 9, 9}));
  EXPECT_EQ(json.at("peak_activations"), Json({4, 4, 4, 4}));
  EXPECT_EQ(json.at("peak_bytes"), Json({4, 4, 4, 4}));
  const Answer text = ask(
      {"simulate",
       "1F1B",
       "--ranks",
       "2",
       "--microbatches",
       "2",
       "--backward",
       "1.5",
       "--latency",
       "0.5",
       "--bandwidth",
       "4",
       "--message-bytes",
       "2",
       "--activation-bytes",
       "16"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("1F1B: time ")) << text.out;
}

TEST(ScheduleSimulate, SaysWhatDecidesTheTime) {
  const std::vector<std::string> words{
      "simulate", "1F1B", "--ranks", "2", "--microbatches", "2", "--latency", "0.5"};
  EXPECT_TRUE(contains(
      ask(words).out,
      "\ncritical path, 6 actions (> to another rank): 0F0 > 1F0 1B0 1F1 1B1 > 0B1\n"))
      << ask(words).out;
  auto json_words = words;
  json_words.insert(json_words.end(), {"--format", "json"});
  const Json path = Json::parse(ask(json_words).out).at("critical_path");
  ASSERT_EQ(path.size(), 6U);
  EXPECT_EQ(
      path[1], Json({{"action", "1F0"}, {"rank", 1}, {"start", 1.5}, {"end", 2.5}}));
}

TEST(ScheduleSimulate, ALongPathIsCutInTheMiddle) {
  const auto path = [](const std::string& microbatches) {
    const std::string out =
        ask({"simulate", "GPipe", "--ranks", "1", "--microbatches", microbatches}).out;
    return out.substr(out.find("critical path"));
  };
  EXPECT_FALSE(contains(path("12"), "more"));
  const std::string cut = path("1000");
  EXPECT_TRUE(contains(cut, "0F11 ... 1976 more ... 0B988 ")) << cut;
  EXPECT_TRUE(cut.ends_with(" 0B998 0B999\n")) << cut;
  EXPECT_LT(cut.size(), 250U);
}

TEST_F(ScheduleFiles, AreSimulated) {
  const std::string file = write("v.csv", "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  EXPECT_EQ(
      Json::parse(ask({"simulate", file, "--format", "json"}).out).at("makespan"), 12);
}

}  // namespace
}  // namespace trireme::cli
