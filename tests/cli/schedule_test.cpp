// `trireme schedule` as users call it: through the built program, and in this process.
#include "trireme/cli/schedule.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/cli/front.h"
#include "trireme/cli/run_torch.h"
#include "trireme/core/error.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/lower.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

Answer ask(std::vector<std::string> words) {
  words.insert(words.begin(), "schedule");
  std::ostringstream out, err;
  const int code = run_front(words, out, err);
  return {.code = code, .out = out.str(), .err = err.str()};
}

bool contains(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

/// A folder of its own, gone at the end.
class ScheduleFiles : public ::testing::Test {
 protected:
  ScheduleFiles() {
    std::string pattern =
        (fs::temp_directory_path() / "trireme-schedule-XXXXXX").native();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ScheduleFiles() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).native(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST(ScheduleCommand, ListsAllNames) {
  const Answer text = ask({"list"});
  EXPECT_EQ(text.code, 0);
  for (const auto& info : sched::all_schedules())
    EXPECT_TRUE(contains(text.out, info.name));
  const Json json = Json::parse(ask({"list", "--format", "json"}).out);
  EXPECT_EQ(json.size(), sched::all_schedules().size() + 1);
  EXPECT_EQ(json.back().at("name"), "Auto");
  EXPECT_EQ(json[0].at("name"), "ForwardOnly");
}

TEST(ScheduleCommand, ShowsInEveryFormat) {
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

TEST(ScheduleCommand, SimulatesWithCosts) {
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

TEST(ScheduleCommand, AutoIsNeverWorseOnEitherMap) {
  const auto time = [](const std::string& name) {
    return Json::parse(ask({"simulate",
                            name,
                            "--ranks",
                            "3",
                            "--microbatches",
                            "6",
                            "--stages-per-rank",
                            "2",
                            "--format",
                            "json"})
                           .out)
        .at("makespan")
        .get<double>();
  };
  EXPECT_LE(time("Auto"), time("ZBVZeroBubble"));
  EXPECT_LE(time("auto"), time("InterleavedZeroBubble"));
}

TEST(ScheduleCommand, PlansAsTextAndJson) {
  const Answer text = ask({"plan", "--ranks", "2", "--microbatches", "4"});
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(contains(text.out.substr(0, text.out.find('\n')), " a microbatch, "));
  const Json json = Json::parse(
      ask({"plan", "--ranks", "2", "--memory-limit", "1", "--format", "json"}).out);
  EXPECT_TRUE(json[0].contains("time_per_microbatch"));
  EXPECT_FALSE(json.back().at("fits").get<bool>());
}

TEST_F(ScheduleFiles, ChecksFiles) {
  const auto schedule = sched::generate("1F1B", {.ranks = 2, .microbatches = 3});
  const std::string plain = write("plain.csv", sched::to_csv(schedule));
  const Answer ok = ask({"check", plain});
  EXPECT_EQ(ok.code, 0) << ok.err;
  EXPECT_EQ(
      ok.out,
      "ok: 2 ranks, 2 stages, 3 microbatches; lowered, it cannot lock up with "
      "unbounded "
      "buffers; at most 2 messages on a channel, 2 live activations on a rank\n");
  EXPECT_EQ(ask({"check", plain, "--lowered"}).code, 2);
  const std::string lowered = write("low.csv", sched::to_csv(sched::lower(schedule)));
  EXPECT_EQ(ask({"check", lowered, "--lowered", "--buffers", "rendezvous"}).code, 0);
  const std::string late = write(
      "late.csv",
      "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1\n");
  const Answer locks = ask({"check", late, "--buffers", "rendezvous"});
  EXPECT_EQ(locks.code, 1);
  EXPECT_TRUE(
      locks.out.starts_with("locks up: with rendezvous rank 0 waits at 0SEND_F1"))
      << locks.out;
  EXPECT_TRUE(contains(locks.out, "with channels that hold 1 message it does not"));
  EXPECT_EQ(ask({"check", late, "--buffers", "1"}).code, 0);
  EXPECT_EQ(ask({"check", late}).code, 0);
  for (const char* buffers : {"-1", "x", "", "1.5", "99999999999"})
    EXPECT_EQ(ask({"check", late, "--buffers", buffers}).code, 2) << buffers;
}

TEST_F(ScheduleFiles, ShowsAndSimulatesFiles) {
  const std::string file = write("v.csv", "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  EXPECT_EQ(ask({"show", file, "--format", "csv"}).out, read("v.csv"));
  EXPECT_EQ(
      ask({"show", file, "--ranks", "2", "--microbatches", "1", "--format", "csv"})
          .code,
      0);
  const Answer wrong = ask({"show", file, "--ranks", "3"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(contains(wrong.err, "to fit --ranks 3, got 2")) << wrong.err;
  EXPECT_EQ(
      Json::parse(ask({"simulate", file, "--format", "json"}).out).at("makespan"), 12);
}

TEST_F(ScheduleFiles, LayersAreCutForTheSimulation) {
  const std::string costs = write(
      "layers.json",
      R"({"version":1,"layers":[{"forward":1,"input_grad":1,"weight_grad":1},
          {"forward":1,"input_grad":1,"weight_grad":1},
          {"forward":2,"input_grad":2,"weight_grad":2}]})");
  const Answer answer = ask(
      {"simulate",
       "1F1B",
       "--ranks",
       "2",
       "--microbatches",
       "2",
       "--costs",
       costs,
       "--format",
       "json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(Json::parse(answer.out).at("busy"), Json({12, 12}));
}

TEST_F(ScheduleFiles, WritesWholeFilesOnly) {
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
  EXPECT_EQ(show(folder_.native()).code, 2);
  EXPECT_EQ(files(), 2U);
  // A device is written to, and stays one.
  EXPECT_EQ(show("/dev/null").code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

/// What is wrong, said in one line, with code 2 and without a file.
class ScheduleBadProcs : public ScheduleFiles {
 protected:
  std::string refused(std::vector<std::string> words) {
    words.insert(words.begin(), "schedule");
    const ChildResult result =
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
  expect_bad_file("0F0,0B0\n1F0,1X0\n", "line 2, cell 2 (column 5): \"1X0\"");
  expect_bad_file("0F0,0F1,0B0,0B1\n1F0,1B0\n", "1F1 is missing");
  expect_bad_file("0F0,0B0\n0F1,0B1\n", "stage 0 belongs to rank 0 (line 1) already");
  expect_bad_file("0F0,0W0\n", "its I comes later or not at all");
  expect_bad_file("0F0,0F2,0B0,0B2\n", "0F1 is missing");
  expect_bad_file("0F0,0F-1\n", "\"0F-1\"");
  expect_bad_file("0F0,0F1000000000\n", "\"0F1000000000\"");
  expect_bad_file("0F100000000\n", "too few");
  expect_bad_file("0F0,0B0\n5F0,5B0\n", "got no action of stage 1");
  expect_bad_file(std::string("0F0,\0\x1b[31m\n", 11), "line 1, cell 2");
  EXPECT_TRUE(contains(refused({"check", path("none.csv")}), "there is no such file"));
  EXPECT_TRUE(contains(refused({"check", folder_.native()}), "it is no regular file"));
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
      "wanted JSON"));
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
      "excludes"));
  refused({"plan", "--ranks", "4", "--costs", path("none.json")});
}

}  // namespace
}  // namespace trireme::cli
