// The picture for documents.
#include "helpers.h"
#include "trireme/sched/draw.h"
#include "trireme/sched/lower.h"

namespace trireme::sched {
namespace {

/// Whether every tag that is opened is closed, in order, and nothing else looks like
/// one.
bool is_balanced(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos)
      return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /\n"));
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1))
        return false;
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.push_back(name);
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0)
      return false;
  }
  return open.empty();
}

int count(const std::string& whole, const std::string& part) {
  int found = 0;
  for (size_t at = whole.find(part); at != std::string::npos;
       at = whole.find(part, at + 1))
    ++found;
  return found;
}

TEST(DrawSvg, HasEveryActionOnce) {
  for (const ScheduleInfo& info : all_schedules()) {
    const Schedule schedule = generate(info.name, {.ranks = 3, .microbatches = 6});
    const std::string svg =
        draw_svg(schedule, simulate(schedule, {.costs = {}, .details = true}));
    EXPECT_TRUE(is_balanced(svg)) << info.name;
    EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    EXPECT_TRUE(contains(svg, "prefers-color-scheme:dark"));
    int actions = 0;
    for (const auto& list : schedule.actions)
      for (const Action& action : list)
        if (action.kind() != ActionKind::Bubble) {
          ++actions;
          EXPECT_EQ(count(svg, text("<title>", to_string(action), " from ")), 1);
        }
    EXPECT_EQ(count(svg, "<title>"), actions);
    EXPECT_FALSE(contains(svg, "\"nan"));
    EXPECT_FALSE(contains(svg, " nan"));
  }
}

// Two stages of a rank that do the same microbatch look different.
TEST(DrawSvg, BoxesAreShadedByStage) {
  const auto shades = [](const char* name, int stages_per_rank) {
    const Schedule schedule = generate(
        name, {.ranks = 2, .microbatches = 4, .stages_per_rank = stages_per_rank});
    const std::string svg =
        draw_svg(schedule, simulate(schedule, {.costs = {}, .details = true}));
    EXPECT_TRUE(is_balanced(svg));
    std::vector<std::string> found;
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      const size_t box = svg.find(text("<title>", stage, "F0 from "));
      const size_t end = svg.find("/>", box);
      const size_t shade = svg.find("fill-opacity=\"", box);
      EXPECT_NE(box, std::string::npos);
      found.push_back(shade < end ? svg.substr(shade + 14, end - shade - 15) : "none");
    }
    return found;
  };
  using Shades = std::vector<std::string>;
  EXPECT_EQ(shades("1F1B", 1), (Shades{"none", "none"}));
  EXPECT_EQ(shades("Interleaved1F1B", 2), (Shades{"1", "1", "0.4", "0.4"}));
  // There and back: rank 1 has stages 1 and 2.
  EXPECT_EQ(shades("ZBVZeroBubble", 2), (Shades{"1", "1", "0.4", "0.4"}));
  EXPECT_EQ(shades("LoopedBFS", 4)[4], "0.6");
}

TEST(DrawSvg, ALoweredScheduleHasAnArrowAMessage) {
  for (const ScheduleInfo& info : all_schedules()) {
    const Schedule schedule =
        lower(generate(info.name, {.ranks = 3, .microbatches = 6}));
    const std::string svg =
        draw_svg(schedule, simulate(schedule, {.costs = {}, .details = true}));
    EXPECT_TRUE(is_balanced(svg)) << info.name;
    int activations = 0, gradients = 0;
    for (const auto& list : schedule.actions)
      for (const Action& action : list) {
        activations += action.kind() == ActionKind::SendForward ? 1 : 0;
        gradients += action.kind() == ActionKind::SendBackward ? 1 : 0;
      }
    EXPECT_EQ(count(svg, "<title>activation of "), activations) << info.name;
    EXPECT_EQ(count(svg, "<title>gradient of "), gradients) << info.name;
    // One more of each in the legend.
    EXPECT_EQ(count(svg, "<line "), activations + gradients + 2) << info.name;
    EXPECT_EQ(count(svg, "prefers-color-scheme:dark"), 2);
  }
}

TEST(DrawSvg, AnArrowGoesFromRowToRowInTime) {
  const Schedule schedule = lower(from_rows({"0F0,0B0", "1F0,1B0"}));
  SimulateOptions options{.costs = {}, .details = true};
  options.costs.link.latency = 2;
  const std::string svg = draw_svg(schedule, simulate(schedule, options));
  // A unit is 22 pixels wide; the activation takes two of them, downwards.
  EXPECT_TRUE(contains(
      svg,
      "<title>activation of microbatch 0 from stage 0 to 1, from 1 to 3</title><line "
      "class=\"ac\" x1=\"83.00\" y1=\"58.00\" x2=\"127.00\" y2=\"84.00\""))
      << svg;
  EXPECT_TRUE(contains(
      svg,
      "<title>gradient of microbatch 0 from stage 1 to 0, from 6 to 8</title><line "
      "class=\"gr\" x1=\"199.00\" y1=\"84.00\" x2=\"243.00\" y2=\"58.00\""))
      << svg;
}

TEST(DrawSvg, NamesFromFilesAreEscaped) {
  Schedule schedule = generate("1F1B", {.ranks = 2, .microbatches = 2});
  schedule.name = "<a href=\"x\">&\x01";
  const std::string svg =
      draw_svg(schedule, simulate(schedule, {.costs = {}, .details = true}));
  EXPECT_TRUE(is_balanced(svg));
  EXPECT_FALSE(contains(svg, "<a "));
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
}

TEST(DrawSvg, IsAsWideInWhateverUnit) {
  const Schedule schedule = generate("1F1B", {.ranks = 2, .microbatches = 4});
  const auto width = [&](double unit) {
    Costs costs;
    costs.stages = {
        {.forward = unit,
         .input_grad = unit,
         .weight_grad = unit,
         .backward = 2 * unit}};
    const std::string svg =
        draw_svg(schedule, simulate(schedule, {.costs = costs, .details = true}));
    EXPECT_TRUE(is_balanced(svg));
    return svg.substr(svg.find("viewBox"), 30);
  };
  EXPECT_EQ(width(1), width(1.0 / 1024));
  EXPECT_EQ(width(1), width(4096));
  // Nothing takes time: no picture, but a file.
  width(0);
}

}  // namespace
}  // namespace trireme::sched
