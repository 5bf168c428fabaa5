// All schedules of a small pipeline with one stage a rank, tried one by one.
#pragma once
#include <array>
#include <limits>

#include "helpers.h"
#include "trireme/sched/costs.h"

namespace trireme::sched {

/// One rank's order, a letter an action: F, B, I or W; microbatches keep their order.
using Word = std::string;

/// All orders of one rank, with no more live activations than `most`.
inline std::vector<Word> all_words(int microbatches, int most) {
  std::vector<Word> all;
  Word word;
  const auto add = [&](auto&& self, int f, int b, int pending, int live) -> void {
    if (f == microbatches && b == microbatches && pending == 0) {
      all.push_back(word);
      return;
    }
    const auto step = [&](char letter, int df, int db, int dp, int dl) {
      word.push_back(letter);
      self(self, f + df, b + db, pending + dp, live + dl);
      word.pop_back();
    };
    if (f < microbatches && live < most)
      step('F', 1, 0, 0, 1);
    if (b < f) {
      step('B', 0, 1, 0, -1);
      step('I', 0, 1, 1, 0);
    }
    if (pending > 0)
      step('W', 0, 0, -1, -1);
  };
  add(add, 0, 0, 0, 0);
  return all;
}

/// The time of one choice of orders; infinity if it never ends, or takes longer than
/// `limit`.
class WordRunner {
 public:
  explicit WordRunner(const Costs& costs) : costs_(costs) {}

  double time(const std::vector<const Word*>& words, double limit) {
    const size_t ranks = words.size();
    constexpr double kNever = std::numeric_limits<double>::infinity();
    for (size_t r = 0; r < ranks; ++r)
      state_[r] = {};
    double end = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks; ++r)
        while (step(*words[r], r, ranks)) {
          moved = true;
          end = std::max(end, state_[r].clock);
          if (end >= limit)
            return kNever;
        }
    }
    for (size_t r = 0; r < ranks; ++r)
      if (state_[r].at < words[r]->size())
        return kNever;
    return end;
  }

 private:
  struct State {
    size_t at = 0;
    double clock = 0;
    size_t forwards = 0;
    size_t inputs = 0;
    std::array<double, 8> forward_end{};
    std::array<double, 8> input_end{};
  };

  bool step(const Word& word, size_t r, size_t ranks) {
    State& own = state_[r];
    if (own.at == word.size())
      return false;
    const StageCosts& stage = costs_.stage(static_cast<int>(r));
    const double latency = costs_.link.latency;
    double start = own.clock;
    switch (word[own.at]) {
      case 'F':
        if (r > 0) {
          const State& before = state_[r - 1];
          if (before.forwards <= own.forwards)
            return false;
          start = std::max(start, before.forward_end[own.forwards] + latency);
        }
        own.clock = own.forward_end[own.forwards++] = start + stage.forward;
        break;
      case 'W':
        own.clock = start + stage.weight_grad;
        break;
      default:
        if (r + 1 < ranks) {
          const State& after = state_[r + 1];
          if (after.inputs <= own.inputs)
            return false;
          start = std::max(start, after.input_end[own.inputs] + latency);
        }
        own.clock = own.input_end[own.inputs++] =
            start + (word[own.at] == 'B' ? stage.backward : stage.input_grad);
    }
    ++own.at;
    return true;
  }

  const Costs& costs_;
  std::array<State, 4> state_;
};

/// What the order of one rank takes at least, if all other ranks did only what it waits
/// for.
inline double least_time(
    const Word& word, const Costs& costs, size_t rank, size_t ranks) {
  const auto input = [&](size_t r) {
    const StageCosts& stage = costs.stage(static_cast<int>(r));
    return std::min(stage.input_grad, stage.backward);
  };
  double first = 0, slowest = 0, round_trip = 0, tail = 0;
  for (size_t r = 0; r < ranks; ++r) {
    const double forward = costs.stage(static_cast<int>(r)).forward;
    if (r < rank) {
      first += forward;
      slowest = std::max(slowest, forward);
      tail += input(r);
    } else if (r > rank) {
      round_trip += forward + input(r);
    }
  }
  const StageCosts& own = costs.stage(static_cast<int>(rank));
  std::vector<double> forward_end;
  double clock = 0, last_input = 0;
  size_t inputs = 0;
  for (const char letter : word) {
    if (letter == 'F') {
      const double there = first + slowest * double(forward_end.size());
      clock = std::max(clock, there) + own.forward;
      forward_end.push_back(clock);
    } else if (letter == 'W') {
      clock += own.weight_grad;
    } else {
      clock = std::max(clock, forward_end[inputs++] + round_trip) +
              (letter == 'B' ? own.backward : own.input_grad);
      last_input = clock;
    }
  }
  return std::max(clock, last_input + tail);
}

/// The least time of all choices; `most` live activations on each rank. Orders that by
/// themselves take longer than what was found are left out.
inline double brute_force(
    const Costs& costs, int ranks, int microbatches, const std::vector<int>& most) {
  std::vector<std::vector<std::pair<double, Word>>> words(static_cast<size_t>(ranks));
  for (size_t r = 0; r < words.size(); ++r) {
    for (Word& word : all_words(microbatches, most[r]))
      words[r].emplace_back(least_time(word, costs, r, words.size()), std::move(word));
    std::sort(words[r].begin(), words[r].end());
  }
  WordRunner runner(costs);
  double best = std::numeric_limits<double>::infinity();
  std::vector<const Word*> chosen(words.size());
  const auto choose = [&](auto&& self, size_t rank) -> void {
    if (rank == words.size()) {
      best = std::min(best, runner.time(chosen, best));
      return;
    }
    for (const auto& [least, word] : words[rank]) {
      if (least >= best)
        return;
      chosen[rank] = &word;
      self(self, rank + 1);
    }
  };
  choose(choose, 0);
  return best;
}

/// Unequal costs: whole numbers, so that sums are exact. A fused backward is at most
/// its two parts.
inline Costs random_costs(std::mt19937& random, int stages) {
  const auto draw = [&random](int least, int most) {
    return double(std::uniform_int_distribution(least, most)(random));
  };
  Costs costs;
  costs.stages.clear();
  for (int s = 0; s < stages; ++s) {
    StageCosts stage{
        .forward = draw(1, 9), .input_grad = draw(1, 9), .weight_grad = draw(1, 9)};
    const double both = stage.input_grad + stage.weight_grad;
    stage.backward = std::max({both - draw(0, 3), stage.input_grad, stage.weight_grad});
    costs.stages.push_back(stage);
  }
  return costs;
}

}  // namespace trireme::sched
