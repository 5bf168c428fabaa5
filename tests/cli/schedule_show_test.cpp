// Schedules as text, files and pictures.
#include "schedule_helpers.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/lower.h"

namespace trireme::cli {
namespace {

TEST(ScheduleShow, InEveryFormat) {
  const std::vector<std::string> words{
      "show", "dualpipev", "--ranks", "2", "--microbatches", "4"};
  const auto format = [&](const std::string& name, bool lowered = false) {
    auto all = words;
    all.insert(all.end(), {"--format", name});
    if (lowered)
      all.push_back("--lowered");
    const Answer answer = ask(all);
    EXPECT_EQ(answer.code, 0) << answer.err;
    EXPECT_EQ(answer.err, "");
    return answer.out;
  };
  const auto schedule = sched::generate("DualPipeV", {.ranks = 2, .microbatches = 4});
  EXPECT_EQ(format("csv"), sched::to_csv(schedule));
  EXPECT_EQ(format("csv", true), sched::to_csv(sched::lower(schedule)));
  EXPECT_TRUE(format("svg").starts_with("<svg"));
  EXPECT_TRUE(Json::parse(format("trace")).contains("traceEvents"));
  EXPECT_EQ(Json::parse(format("json")).at("ranks"), 2);
  EXPECT_EQ(Json::parse(format("json", true)).at("lowered"), true);
  EXPECT_TRUE(format("grid").starts_with("rank 0  0F0"));
  EXPECT_EQ(ask(words).out, format("grid"));
  EXPECT_TRUE(contains(format("grid", true), "0UNSHARD 3UNSHARD"));
}

TEST(ScheduleShow, DrawsTheMessagesOfALoweredOne) {
  const auto show = [](const std::string& format, bool lowered) {
    std::vector<std::string> words{
        "show", "1F1B", "--ranks", "2", "--microbatches", "3", "--format", format};
    if (lowered)
      words.emplace_back("--lowered");
    return ask(words).out;
  };
  EXPECT_TRUE(contains(show("svg", true), "<line "));
  EXPECT_FALSE(contains(show("svg", false), "<line "));
  EXPECT_TRUE(contains(show("trace", true), "\"0SEND_F2\""));
  EXPECT_TRUE(contains(show("trace", true), "\"0RECV_B2\""));
  EXPECT_FALSE(contains(show("trace", false), "SEND_F"));
}

TEST_F(ScheduleFiles, AreShown) {
  const std::string file = write("v.csv", "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  EXPECT_EQ(ask({"show", file, "--format", "csv"}).out, read("v.csv"));
  EXPECT_EQ(
      ask({"show", file, "--ranks", "2", "--microbatches", "1", "--format", "csv"})
          .code,
      0);
  const Answer wrong = ask({"show", file, "--ranks", "3"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(contains(wrong.err, "to fit --ranks 3, got 2")) << wrong.err;
}

TEST_F(ScheduleFiles, AreWrittenAsAWhole) {
  const auto show = [](const std::string& to) {
    return ask(
        {"show",
         "1F1B",
         "--ranks",
         "2",
         "--microbatches",
         "2",
         "--format",
         "csv",
         "-o",
         to});
  };
  const Answer answer = show(path("out.csv"));
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out, "");
  EXPECT_EQ(read("out.csv"), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(files(), 1U);
  // Behind a link lies the file that is meant.
  fs::create_symlink("out.csv", path("link.csv"));
  write("out.csv", "old");
  EXPECT_EQ(show(path("link.csv")).code, 0);
  EXPECT_TRUE(fs::is_symlink(path("link.csv")));
  EXPECT_TRUE(read("out.csv").starts_with("0F0"));
  // What cannot be written leaves nothing behind.
  EXPECT_EQ(show(path("no/such/folder.csv")).code, 2);
  EXPECT_EQ(show(folder_.path().native()).code, 2);
  EXPECT_EQ(files(), 2U);
  // A device is written to, and stays one.
  EXPECT_EQ(show("/dev/null").code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace trireme::cli
