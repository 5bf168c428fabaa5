#include "trireme/sched/generate.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/nearest.h"
#include "trireme/sched/auto.h"
#include "trireme/sched/generators.h"

namespace trireme::sched {
namespace {

using ByRank = ActionList (*)(const OneRank&);
using ByPipeline = std::vector<ActionList> (*)(int P, int V, int M);

/// A schedule, its rule for the number of microbatches, and how it is made.
struct Maker {
  ScheduleInfo info;
  ByRank by_rank = nullptr;
  ByPipeline by_pipeline = nullptr;
  /// Whether so many microbatches are legal; null: any.
  bool (*legal)(int P, int M) = nullptr;
  const char* rule = "";
  /// Whether every rank has cells, or steps of its making, for all other ranks too:
  /// bubbles that show time.
  bool spread = false;
};

bool at_least_ranks(int P, int M) {
  return M >= P;
}
bool at_least_stages(int P, int M) {
  return M >= 2 * P;
}
bool whole_groups(int P, int M) {
  return interleaved_group(P, M) != 0;
}

constexpr const char* kWholeGroups =
    "a number of microbatches M that max(1, floor(M / ranks)) divides";

std::vector<ActionList> make_v_half(int P, int, int M) {
  return v_half(P, M);
}
std::vector<ActionList> make_v_min(int P, int, int M) {
  return v_min(P, M);
}

// Two stages a rank: the last rank has the two in the middle.
constexpr ScheduleInfo there_and_back(
    const char* name, const char* summary, bool in_torch) {
  return {
      .name = name,
      .summary = summary,
      .map = StageMap::V,
      .usual_stages = 2,
      .most_stages = 2,
      .fewest_stages = 2,
      .splits = true,
      .in_torch = in_torch};
}

constexpr std::array kMakers = {
    Maker{
        .info =
            {.name = "ForwardOnly",
             .summary = "Only forwards: for evaluation",
             .in_torch = false},
        .by_rank = forward_only},
    Maker{
        .info =
            {.name = "GPipe",
             .summary = "All forwards, then all backwards",
             .most_stages = 1,
             .in_torch = true},
        .by_rank = gpipe,
        .spread = true},
    Maker{
        .info =
            {.name = "1F1B",
             .summary = "Forward and backward in turn: GPipe's bubble, less memory",
             .most_stages = 1,
             .in_torch = true},
        .by_rank = one_f_one_b,
        .legal = at_least_ranks,
        .rule = "at least as many microbatches as ranks"},
    Maker{
        .info =
            {.name = "Eager1F1B",
             .summary = "1F1B with a longer warm-up, which hides latency",
             .most_stages = 1},
        .by_rank = eager_1f1b},
    Maker{
        .info =
            {.name = "Interleaved1F1B",
             .summary = "1F1B over several stages a rank: a smaller bubble",
             .usual_stages = 2,
             .in_torch = true},
        .by_rank = interleaved_1f1b,
        .legal = whole_groups,
        .rule = kWholeGroups,
        .spread = true},
    Maker{
        .info =
            {.name = "LoopedBFS",
             .summary = "All microbatches of a stage before the next stage",
             .usual_stages = 2,
             .in_torch = true},
        .by_rank = looped_bfs,
        .spread = true},
    Maker{
        .info =
            {.name = "ZB-H1",
             .summary = "1F1B whose bubbles are filled with weight gradients",
             .most_stages = 1,
             .splits = true},
        .by_rank = zb_h1},
    Maker{
        .info =
            {.name = "ZB-H2",
             .summary = "As ZB-H1 with twice the activations: no bubble within a span",
             .most_stages = 1,
             .splits = true},
        .by_rank = zb_h2},
    Maker{
        .info =
            {.name = "InterleavedZeroBubble",
             .summary = "ZB-H1 over several stages a rank",
             .usual_stages = 2,
             .splits = true,
             .in_torch = true},
        .by_pipeline = interleaved_zero_bubble,
        .legal = whole_groups,
        .rule = kWholeGroups,
        .spread = true},
    Maker{
        .info = there_and_back(
            "ZBVZeroBubble",
            "Zero bubble over two stages a rank, there and back",
            true),
        .by_rank = zbv,
        .spread = true},
    Maker{
        .info = there_and_back(
            "V-Half", "There and back with half of 1F1B's activations", false),
        .by_pipeline = make_v_half,
        .spread = true},
    Maker{
        .info = there_and_back(
            "V-Min", "There and back with a third of 1F1B's activations", false),
        .by_pipeline = make_v_min,
        .spread = true},
    Maker{
        .info = there_and_back(
            "DualPipeV", "There and back, forwards and backwards overlapped", true),
        .by_rank = dual_pipe_v,
        .legal = at_least_stages,
        .rule = "at least two microbatches a rank"},
};

// Made for costs, by make_auto(), and so no Maker.
constexpr ScheduleInfo kAuto{
    .name = "Auto", .summary = "The order that suits measured costs", .splits = true};

constexpr auto kInfos = [] {
  std::array<ScheduleInfo, kMakers.size()> infos{};
  for (size_t i = 0; i < infos.size(); ++i)
    infos[i] = kMakers[i].info;
  return infos;
}();

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

const Maker& find_maker(std::string_view name) {
  std::string list;
  std::vector<std::string> names;
  for (const Maker& maker : kMakers) {
    if (same_name(maker.info.name, name))
      return maker;
    list += text(list.empty() ? "" : ", ", maker.info.name);
    names.emplace_back(maker.info.name);
  }
  names.emplace_back(kAuto.name);
  const std::string meant = did_you_mean(name, names);
  throw InvalidArgument(text(
      "[sched] expected the name of a schedule (",
      list,
      ", or Auto), got ",
      in_quotes(name),
      meant.empty() ? "; take one of these" : meant));
}

void check_range(const char* what, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw InvalidArgument(text(
        "[sched] expected ",
        what,
        " from ",
        least,
        " to ",
        most,
        ", got ",
        value,
        "; the nearest is ",
        value < least ? least : most));
}

// The legal number nearest to M; there always is one above.
int nearest_legal(const Maker& maker, int P, int M) {
  for (int step = 1;; ++step)
    for (const int candidate : {M - step, M + step})
      if (candidate >= 1 && maker.legal(P, candidate))
        return candidate;
}

ScheduleSize checked_size(const Maker& maker, ScheduleSize size) {
  constexpr int kMostRanks = 1 << 20, kMostMicrobatches = 1 << 24,
                kMostStages = 1 << 10;
  const ScheduleInfo& info = maker.info;
  if (size.stages_per_rank == 0)
    size.stages_per_rank = info.usual_stages;
  check_range("the number of ranks", size.ranks, 1, kMostRanks);
  check_range("the number of microbatches", size.microbatches, 1, kMostMicrobatches);
  check_range(
      text("the stages a rank of ", info.name).c_str(),
      size.stages_per_rank,
      info.fewest_stages,
      info.most_stages == 0 ? kMostStages : info.most_stages);
  constexpr int64_t kMostActions = int64_t{1} << 28;
  const int64_t stages = int64_t{size.ranks} * size.stages_per_rank;
  check_range(
      "ranks x stages a rank x microbatches",
      stages * size.microbatches,
      1,
      kMostActions);
  if (maker.spread)
    check_range(
        text("ranks x ranks x stages a rank of ", info.name).c_str(),
        stages * size.ranks,
        1,
        kMostActions);
  if (maker.legal != nullptr && !maker.legal(size.ranks, size.microbatches))
    throw InvalidArgument(text(
        "[sched] expected ",
        maker.rule,
        " for ",
        info.name,
        ", got ",
        size.microbatches,
        " with ",
        size.ranks,
        " ranks; the nearest is ",
        nearest_legal(maker, size.ranks, size.microbatches)));
  return size;
}

}  // namespace

std::span<const ScheduleInfo> all_schedules() {
  return kInfos;
}

bool is_auto(std::string_view name) {
  return same_name(name, kAuto.name);
}

const ScheduleInfo& find_schedule(std::string_view name) {
  if (is_auto(name))
    return kAuto;
  return kInfos[static_cast<size_t>(&find_maker(name) - kMakers.data())];
}

Schedule generate(std::string_view name, const ScheduleSize& given) {
  if (is_auto(name))
    return make_auto(given, CostFile{}).schedule;
  const Maker& maker = find_maker(name);
  const ScheduleSize size = checked_size(maker, given);
  const int P = size.ranks, V = size.stages_per_rank, M = size.microbatches;
  Schedule schedule{
      .name = maker.info.name,
      .microbatches = M,
      .rank_of_stage = map_stages(maker.info.map, P, P * V)};
  if (maker.by_pipeline != nullptr) {
    schedule.actions = maker.by_pipeline(P, V, M);
    return schedule;
  }
  for (int rank = 0; rank < P; ++rank)
    schedule.actions.push_back(maker.by_rank({.rank = rank, .P = P, .V = V, .M = M}));
  return schedule;
}

}  // namespace trireme::sched
