// `trireme schedule` as users call it, with what is wrong: through the built program.
#include "trireme/cli/schedule.h"

#include <chrono>

#include "schedule_helpers.h"
#include "trireme/cli/run_torch.h"
#include "trireme/core/error.h"

namespace trireme::cli {
namespace {

/// What is wrong, said in one line, with code 2 and without a file.
class ScheduleBadProcs : public ScheduleFiles {
 protected:
  std::string refused(std::vector<std::string> words) {
    words.insert(words.begin(), "schedule");
    const launch::ChildResult result =
        run_torch(TRIREME_PROGRAM, words, std::chrono::seconds(60));
    std::string all;
    for (const std::string& word : words)
      all += text(word, " ");
    EXPECT_EQ(result.exit_code, 2) << all << result.out << result.err;
    EXPECT_EQ(result.signal, 0) << all;
    EXPECT_EQ(result.out, "") << all;
    const std::string first = result.err.substr(0, result.err.find('\n'));
    EXPECT_TRUE(first.starts_with("trireme: [")) << all << result.err;
    EXPECT_FALSE(fs::exists(path("out"))) << all;
    return first;
  }
  void expect_bad_file(const std::string& content, const std::string& part) {
    const std::string file = write("bad.csv", content);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"check", file},
          {"show", file, "--format", "csv", "-o", path("out")},
          {"simulate", file}})
      EXPECT_TRUE(contains(refused(words), part)) << content;
  }
};

TEST_F(ScheduleBadProcs, Files) {
  expect_bad_file("", "got an empty file");
  expect_bad_file("\n\n", "got an empty file");
  expect_bad_file(
      "0F0,0B0\n1F0,1X0\n", "line 2, column 6 (cell 2, \"1X0\"): expected F, ");
  expect_bad_file("0F0,0F1,0B0,0B1\n1F0,1B0\n", "1F1 is missing");
  expect_bad_file("0F0,0B0\n0F1,0B1\n", "expected stage 0 on rank 0 (line 1) alone");
  expect_bad_file("0F0,0W0\n", "its I comes later or not at all");
  expect_bad_file("0F0,0F2,0B0,0B2\n", "0F1 is missing");
  expect_bad_file("0F0,0F-1\n", "\"0F-1\"");
  expect_bad_file("0F0,0F1000000000\n", "\"0F1000000000\"");
  expect_bad_file("0F100000000\n", "too few");
  expect_bad_file("0F0,0B0\n5F0,5B0\n", "got no action of stage 1");
  expect_bad_file(std::string("0F0,\0\x1b[31m\n", 11), "line 1, column 5 (cell 2");
  EXPECT_TRUE(contains(refused({"check", path("none.csv")}), "which does not exist"));
  EXPECT_TRUE(contains(
      refused({"check", folder_.path().native()}), "which is not a regular file"));
}

TEST_F(ScheduleBadProcs, Words) {
  EXPECT_EQ(
      refused({"bogus"}),
      "trireme: [cli] expected a command (list, show, check, simulate, plan), got "
      "\"bogus\"; see trireme schedule --help");
  EXPECT_TRUE(contains(refused({"shw"}), "got \"shw\"; did you mean show?"));
  EXPECT_TRUE(contains(refused({"simulat", "1F1B"}), "did you mean simulate?"));
  EXPECT_TRUE(contains(refused({}), "got none"));
  EXPECT_TRUE(contains(
      refused({"show", "1F1B", "--ranks", "2", "--microbatches", "2", "-o", ""}),
      "expected --output to be the name of a file, got \"\""));
  EXPECT_TRUE(contains(refused({"plan", "--ranks", "2", "--costs", ""}), "--costs"));
}

TEST_F(ScheduleBadProcs, Sizes) {
  for (const char* name : {"1F1B", "GPipe", "V-Min", "Auto"}) {
    for (const char* bad : {"0", "-1", "1000000000", "99999999999", "x", "1.5", ""}) {
      refused({"show", name, "--ranks", bad, "--microbatches", "4", "-o", path("out")});
      refused({"simulate", name, "--ranks", "2", "--microbatches", bad});
      refused(
          {"simulate",
           name,
           "--ranks",
           "2",
           "--microbatches",
           "4",
           "--stages-per-rank",
           bad});
    }
    EXPECT_TRUE(contains(refused({"show", name, "--ranks", "2"}), "--microbatches"));
    refused({"show", name});
  }
  for (const char* bad : {"0", "-1", "1000000000", "x"}) {
    refused({"plan", "--ranks", bad});
    refused({"plan", "--ranks", "2", "--microbatches", bad});
  }
  refused({"plan"});
  EXPECT_TRUE(contains(
      refused({"show", "2F2B", "--ranks", "2", "--microbatches", "4"}), "2F2B"));
  refused({"show", "1F1B", "--ranks", "4", "--microbatches", "2", "-o", path("out")});
}

TEST_F(ScheduleBadProcs, Costs) {
  for (const char* option :
       {"--forward",
        "--input-grad",
        "--weight-grad",
        "--backward",
        "--latency",
        "--bandwidth",
        "--message-bytes",
        "--activation-bytes",
        "--overlap-gain"})
    for (const char* bad : {"-1", "nan", "x", ""}) {
      refused({"simulate", "1F1B", "--ranks", "2", "--microbatches", "2", option, bad});
      refused({"plan", "--ranks", "2", option, bad});
    }
  refused(
      {"simulate", "1F1B", "--ranks", "2", "--microbatches", "2", "--bandwidth", "0"});
  refused(
      {"simulate",
       "1F1B",
       "--ranks",
       "2",
       "--microbatches",
       "2",
       "--overlap-gain",
       "2"});
  for (const char* bad : {"-1", "nan", "x"})
    refused({"plan", "--ranks", "2", "--memory-limit", bad});
  const auto with = [&](const std::string& json) {
    const std::string file = write("costs.json", json);
    refused({"plan", "--ranks", "4", "--costs", file});
    return refused(
        {"simulate", "1F1B", "--ranks", "4", "--microbatches", "4", "--costs", file});
  };
  const std::string stage = R"({"forward":1,"input_grad":1,"weight_grad":1})";
  EXPECT_TRUE(contains(
      with(text(R"({"version":1,"stages":[)", stage, ",", stage, "]}")),
      "the costs of 4 stages (or of one, for all), got 2"));
  EXPECT_TRUE(contains(
      with(
          R"({"version":1,"stages":[{"forward":NaN,"input_grad":1,"weight_grad":1}]})"),
      "costs.json, line 1, column 35: expected JSON"));
  EXPECT_FALSE(contains(with("{"), "json.exception"));
  EXPECT_TRUE(contains(with("{}"), "\"version\""));
  EXPECT_TRUE(contains(
      with(text(
          R"({"version":1,"stages":[)", stage, R"(],"links":[{"from":0,"to":9}]})")),
      "links between ranks 0 to 3"));
  const std::string good =
      write("good.json", text(R"({"version":1,"stages":[)", stage, "]}"));
  EXPECT_TRUE(contains(
      refused(
          {"simulate",
           "1F1B",
           "--ranks",
           "4",
           "--microbatches",
           "4",
           "--costs",
           good,
           "--forward",
           "2"}),
      "got both"));
  refused({"plan", "--ranks", "4", "--costs", path("none.json")});
}

}  // namespace
}  // namespace trireme::cli
