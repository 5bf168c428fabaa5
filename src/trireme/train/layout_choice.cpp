#include "trireme/train/layout_choice.h"

#include <algorithm>
#include <cmath>

#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/train/estimate.h"
#include "trireme/train/schedule_choice.h"

namespace trireme::train {
namespace {

// Estimates are good enough that the best layout is among so many.
constexpr size_t kMostTried = 6;
// In fewer steps than these no choice can pay for its trials.
constexpr int64_t kLeastSteps = 100;
// Trials stop when they have taken this part of the job, or these seconds if that is
// less than them.
constexpr double kJobShare = 0.05;
constexpr double kFreeSeconds = 5;
// What is faster by less than this may have been lucky: the estimate decides then.
constexpr double kLuck = 1.03;
// Where nobody asks for a longer pipeline, none is looked at.
constexpr int kLongestPipeline = 16;
// The part of the memory that ranks may take.
constexpr double kMemoryShare = 0.9;

// What a person who leaves everything open would expect first. Its error is shown where
// no layout is possible.
Degrees plain_degrees(const Config& whole, int ranks) {
  const ParallelismConfig& config = whole.parallelism;
  const int pp = static_cast<int>(config.pipeline_parallel_degree);
  const int dp = static_cast<int>(config.data_parallel_replicate_degree);
  if (pp == 0 && dp == 0 && ranks % 2 == 0 && ranks > 0 && !is_measured(whole))
    return {.pp = 2, .dp = ranks / 2};
  if (pp != 0)
    return {.pp = pp, .dp = dp != 0 ? dp : std::max(1, ranks / pp)};
  if (dp != 0)
    return {.pp = std::max(1, ranks / dp), .dp = dp};
  return {.pp = 1, .dp = std::max(1, ranks)};
}

// Every pair of degrees that the config and the number of ranks allow.
std::vector<Degrees> all_degrees(
    const ParallelismConfig& config, const LayoutRoom& room, int layers) {
  const int pp = static_cast<int>(config.pipeline_parallel_degree);
  const int dp = static_cast<int>(config.data_parallel_replicate_degree);
  const int asked = std::max(1, pp) * std::max(1, dp);
  const int most = room.ranks != 0 ? room.ranks : std::max(room.cores, asked);
  const int longest =
      pp != 0 || room.ranks != 0 || dp != 0 ? most : std::min(most, kLongestPipeline);
  std::vector<Degrees> all;
  for (int length = std::max(1, pp); length <= std::min(layers, pp != 0 ? pp : longest);
       ++length)
    for (int copies = std::max(1, dp); copies <= (dp != 0 ? dp : most / length);
         ++copies)
      if (room.ranks != 0 ? length * copies == room.ranks : length * copies <= most)
        all.push_back({.pp = length, .dp = copies});
  return all;
}

// Nothing where the batch or the schedule cannot be cut so.
std::optional<LayoutCandidate> weigh(
    const Config& config,
    const model::ModelPlan& plan,
    const Degrees& degrees,
    const LayoutRoom& room) {
  if (config.training.global_batch_size % degrees.dp != 0)
    return std::nullopt;  // the most frequent reason, without an exception
  LayoutCandidate candidate{
      .degrees = degrees,
      .threads = room.threads != 0 ? room.threads
                                   : threads_per_rank(room.cores, degrees.ranks())};
  try {
    const BatchShape batch = choose_batch(config, degrees);
    const auto layers = estimate_layers(plan, config, batch);
    const Layout layout = first_layout(config, degrees, batch, layers);
    candidate.seconds = estimate_step(layout, layers, candidate.threads);
    double bytes = 0;
    for (const MemoryEstimate& rank : estimate_memory(layout, layers, config))
      bytes += degrees.dp * rank.total();
    candidate.fits =
        room.memory_bytes <= 0 || bytes <= kMemoryShare * room.memory_bytes;
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
  return candidate;
}

[[noreturn]] void refuse_all(
    const Config& config, const model::ModelPlan& plan, const LayoutRoom& room) {
  const Degrees plain = plain_degrees(config, room.ranks);
  check_degrees(
      config.parallelism,
      plain,
      room.ranks != 0 ? room.ranks : plain.ranks(),
      static_cast<int>(plan.layers.size()));
  const BatchShape batch = choose_batch(config, plain);
  first_layout(config, plain, batch, estimate_layers(plan, config, batch));
  throw InternalError("[train] expected a reason why no layout is possible, got none");
}

std::string in_ms(double seconds) {
  return text(std::round(seconds * 1e4) / 10, " ms");
}

struct Tried {
  LayoutCandidate layout;
  double step_s = 0;
};

std::vector<Tried> try_some(
    const std::vector<LayoutCandidate>& candidates,
    int64_t steps,
    const TryLayout& try_layout) {
  std::vector<Tried> tried;
  double spent = 0;
  double best = 0;
  for (size_t i = 0; i < std::min(candidates.size(), kMostTried); ++i) {
    const double allowed =
        std::max(kFreeSeconds, kJobShare * best * static_cast<double>(steps));
    if (!candidates[i].fits || (tried.size() >= 2 && spent > allowed))
      break;
    const auto trial = try_layout(candidates[i]);
    if (!trial)
      continue;
    spent += trial->took_s;
    best = tried.empty() ? trial->step_s : std::min(best, trial->step_s);
    tried.push_back({candidates[i], trial->step_s});
  }
  return tried;
}

}  // namespace

std::string to_text(const LayoutCandidate& candidate) {
  const Degrees& degrees = candidate.degrees;
  return text(
      degrees.ranks(),
      degrees.ranks() == 1
          ? " rank"
          : text(" ranks (", degrees.dp, " data parallel x ", degrees.pp, " pipeline)"),
      " of ",
      candidate.threads,
      candidate.threads == 1 ? " thread" : " threads");
}

std::vector<LayoutCandidate> list_layouts(
    const Config& config, const model::ModelPlan& plan, const LayoutRoom& room) {
  const auto layers = static_cast<int>(plan.layers.size());
  const int64_t asked = config.parallelism.ranks;
  if (asked != 0 && room.ranks != 0 && asked != room.ranks)
    refuse_all(config, plan, room);
  std::vector<LayoutCandidate> all;
  for (const Degrees& degrees : all_degrees(config.parallelism, room, layers))
    if (const auto candidate = weigh(config, plan, degrees, room))
      all.push_back(*candidate);
  if (all.empty())
    refuse_all(config, plan, room);
  const auto is_pipeline = [](const LayoutCandidate& one) {
    return one.degrees.pp > 1;
  };
  // One rank has no use for a schedule, and would not say so.
  if (!is_measured(config) && std::any_of(all.begin(), all.end(), is_pipeline))
    std::erase_if(all, [&](const LayoutCandidate& one) { return !is_pipeline(one); });
  std::stable_sort(all.begin(), all.end(), [](const auto& one, const auto& other) {
    return one.fits != other.fits ? one.fits : one.seconds < other.seconds;
  });
  return all;
}

Degrees choose_degrees(const Config& config, const model::ModelPlan& plan, int ranks) {
  return list_layouts(config, plan, {.ranks = ranks, .cores = ranks}).front().degrees;
}

LayoutChoice choose_layout(
    const std::vector<LayoutCandidate>& candidates,
    int64_t steps,
    const TryLayout& try_layout) {
  TRIREME_ASSERT(!candidates.empty());
  LayoutChoice choice{.layout = candidates.front(), .why = {}};
  if (candidates.size() == 1)
    return choice;
  std::vector<Tried> tried;
  if (steps >= kLeastSteps)
    tried = try_some(candidates, steps, try_layout);
  if (tried.empty()) {
    choice.why = text(
        to_text(choice.layout), ", the best of ", candidates.size(), " by estimate");
    return choice;
  }
  const auto by_time = [](const Tried& one, const Tried& other) {
    return one.step_s < other.step_s;
  };
  const double fastest = std::min_element(tried.begin(), tried.end(), by_time)->step_s;
  const auto chosen = std::find_if(tried.begin(), tried.end(), [&](const Tried& one) {
    return one.step_s <= kLuck * fastest;
  });
  choice.layout = chosen->layout;
  choice.why = text(
      to_text(chosen->layout),
      ", the best of ",
      tried.size(),
      " tried: ",
      in_ms(chosen->step_s),
      " a step");
  tried.erase(chosen);
  std::stable_sort(tried.begin(), tried.end(), by_time);
  for (const Tried& one : tried)
    choice.why += text("; ", to_text(one.layout), ": ", in_ms(one.step_s));
  return choice;
}

}  // namespace trireme::train
