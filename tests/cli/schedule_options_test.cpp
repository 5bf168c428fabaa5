// The command line of `trireme schedule`, without running it.
#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "trireme/cli/schedule.h"

namespace trireme::cli {
namespace {

/// The arguments that the words give; the parser's complaint in `error` if there is
/// one.
struct Parsed {
  ScheduleArguments arguments;
  std::string word;
  std::string error;
};

Parsed parse(std::vector<std::string> words) {
  Parsed parsed;
  CLI::App app("test", "schedule");
  add_schedule_options(app, parsed.arguments);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
    parsed.word = app.get_subcommands()[0]->get_name();
  } catch (const CLI::ParseError& error) {
    parsed.error = error.what();
  }
  return parsed;
}

TEST(ScheduleOptions, TakesAllOfShow) {
  const Parsed parsed = parse(
      {"show",
       "1F1B",
       "--ranks",
       "4",
       "--microbatches",
       "8",
       "--stages-per-rank",
       "2",
       "--lowered",
       "--format",
       "svg",
       "-o",
       "x.svg"});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.word, "show");
  EXPECT_EQ(parsed.arguments.what, "1F1B");
  EXPECT_EQ(parsed.arguments.ranks, 4);
  EXPECT_EQ(parsed.arguments.microbatches, 8);
  EXPECT_EQ(parsed.arguments.stages_per_rank, 2);
  EXPECT_TRUE(parsed.arguments.lowered);
  EXPECT_EQ(parsed.arguments.format, "svg");
  EXPECT_EQ(parsed.arguments.output, "x.svg");
}

TEST(ScheduleOptions, DefaultsAreThoseOfTheDocuments) {
  const ScheduleArguments a = parse({"simulate", "1F1B"}).arguments;
  EXPECT_EQ(a.forward, 1);
  EXPECT_EQ(a.input_grad, 1);
  EXPECT_EQ(a.weight_grad, 1);
  EXPECT_FALSE(a.backward);
  EXPECT_EQ(a.latency, 0);
  EXPECT_EQ(a.bandwidth, "inf");
  EXPECT_EQ(a.activation_bytes, 1);
  EXPECT_FALSE(a.memory_limit);
  EXPECT_EQ(parse({"check", "x.csv"}).arguments.buffers, "unbounded");
}

TEST(ScheduleOptions, TakesCosts) {
  const Parsed parsed = parse(
      {"plan",
       "--ranks",
       "2",
       "--forward",
       "0",
       "--backward",
       "1.5",
       "--memory-limit",
       "1e9",
       "--overlap-gain",
       "0.5"});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.arguments.forward, 0);
  EXPECT_EQ(parsed.arguments.backward, 1.5);
  EXPECT_EQ(parsed.arguments.memory_limit, 1e9);
}

TEST(ScheduleOptions, RefusesWhatIsNoNumberOfThings) {
  for (const char* bad : {"0", "-1", "1.5", "x", "99999999999"}) {
    EXPECT_NE(parse({"show", "1F1B", "--ranks", bad}).error, "") << bad;
    EXPECT_NE(parse({"show", "1F1B", "--microbatches", bad}).error, "") << bad;
    EXPECT_NE(parse({"show", "1F1B", "--stages-per-rank", bad}).error, "") << bad;
  }
  for (const char* bad : {"-1", "-0.1", "nan", "inf", "x"}) {
    EXPECT_NE(parse({"simulate", "1F1B", "--forward", bad}).error, "") << bad;
    EXPECT_NE(parse({"simulate", "1F1B", "--backward", bad}).error, "") << bad;
  }
}

TEST(ScheduleOptions, TheHelpHasTheDefaults) {
  ScheduleArguments arguments;
  CLI::App app("test", "schedule");
  add_schedule_options(app, arguments);
  for (const char* word : {"simulate", "plan"}) {
    const std::string help = app.get_subcommand(word)->help();
    for (const char* option :
         {"--forward X=1",
          "--input-grad X=1",
          "--weight-grad X=1",
          "--latency X=0",
          "--bandwidth X=inf",
          "--message-bytes X=0",
          "--activation-bytes X=1",
          "--overlap-gain X=0"})
      EXPECT_NE(help.find(option), std::string::npos) << word << " " << option;
  }
  const std::string show = app.get_subcommand("show")->help();
  EXPECT_NE(show.find("an arrow (svg) or two instants (trace)"), std::string::npos);
}

TEST(ScheduleOptions, RefusesUnknownWordsAndFormats) {
  EXPECT_NE(parse({}).error, "");
  EXPECT_NE(parse({"draw"}).error, "");
  EXPECT_NE(parse({"show"}).error, "");
  EXPECT_NE(parse({"check"}).error, "");
  EXPECT_NE(parse({"list", "--format", "csv"}).error, "");
  EXPECT_NE(parse({"show", "1F1B", "--format", "text"}).error, "");
  EXPECT_NE(parse({"show", "1F1B", "--unknown"}).error, "");
  EXPECT_NE(parse({"show", "1F1B", "-o", ""}).error, "");
  EXPECT_NE(parse({"plan", "--ranks", "2", "--costs", ""}).error, "");
  EXPECT_NE(parse({"list", "extra"}).error, "");
}

}  // namespace
}  // namespace trireme::cli
