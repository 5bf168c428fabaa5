#include "trireme/bench/measure.h"

#include <iostream>

#include "trireme/core/deadline.h"

namespace trireme::bench {

RoundPlan plan_rounds(const MeasureOptions& options) {
  RoundPlan plan;
  if (options.quick)
    plan = {.rounds = 5, .budget = std::chrono::milliseconds(1200)};
  if (options.rounds > 0)
    plan = {.rounds = options.rounds, .budget = Deadline::kLongest};
  return plan;
}

void repeat_rounds(const RoundPlan& plan, const std::function<void(int)>& round) {
  constexpr int kFewestRounds = 3;
  const Deadline budget = Deadline::after(plan.budget);
  for (int i = 0; i < plan.rounds && (i < kFewestRounds || !budget.expired()); ++i)
    round(i);
}

void measure_in_turn(
    Record& record, const Round& ours, const Round& peer, RoundPlan plan) {
  const auto take_turn = [](const Round& side, Samples* samples) {
    if (!side)
      return;
    const std::vector<double> times = side();
    if (samples != nullptr)
      samples->add_round(times);
  };
  take_turn(ours, nullptr);
  take_turn(peer, nullptr);
  repeat_rounds(plan, [&](int round) {
    const bool ours_first = round % 2 == 0;
    if (ours_first)
      take_turn(ours, &record.ours);
    take_turn(peer, &record.peer);
    if (!ours_first)
      take_turn(ours, &record.ours);
  });
  record.ours.finish();
  record.peer.finish();
}

void show_case(
    const std::string& bench, size_t number, size_t count, const std::string& name) {
  std::cerr << "bench " << bench << " " << number << "/" << count << ": " << name
            << std::endl;
}

void show_left_out(
    const std::string& bench, const std::string& name, const std::string& why) {
  std::cerr << "bench " << bench << ": left out " << name << ": " << why << std::endl;
}

}  // namespace trireme::bench
