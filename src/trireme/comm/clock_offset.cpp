#include "trireme/comm/clock_offset.h"

#include <algorithm>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

constexpr int kTrips = 16;

std::vector<RoundTrip> ask(const Group& group, const NanosecondClock& clock) {
  const int me = group.rank();
  const Channel question(group, {.from = me, .to = 0, .tag = kClockTag});
  const Channel answer(group, {.from = 0, .to = me, .tag = kClockTag});
  std::vector<RoundTrip> trips(kTrips);
  for (RoundTrip& trip : trips) {
    trip.asked_ns = clock();
    question.send({});
    trip.other_ns = answer.receive().header.word;
    trip.answered_ns = clock();
  }
  return trips;
}

void answer(const Group& group, int rank, const NanosecondClock& clock) {
  const Channel question(group, {.from = rank, .to = 0, .tag = kClockTag});
  const Channel answer(group, {.from = 0, .to = rank, .tag = kClockTag});
  for (int trip = 0; trip < kTrips; ++trip) {
    question.receive();
    answer.send({.header = {.word = clock()}});
  }
}

}  // namespace

ClockOffset find_offset(const std::vector<RoundTrip>& trips) {
  TRIREME_ASSERT(!trips.empty());
  const RoundTrip& fastest = *std::min_element(
      trips.begin(), trips.end(), [](const RoundTrip& a, const RoundTrip& b) {
        return a.answered_ns - a.asked_ns < b.answered_ns - b.asked_ns;
      });
  const int64_t length = fastest.answered_ns - fastest.asked_ns;
  return {
      .ns = fastest.other_ns - (fastest.asked_ns + length / 2),
      .error_ns = length - length / 2};
}

ClockOffset measure_offset(
    const Group& group,
    const std::vector<RankHost>& ranks,
    const NanosecondClock& clock) {
  const auto elsewhere = [&](int rank) {
    return ranks[static_cast<size_t>(rank)].kernel != ranks[0].kernel;
  };
  ClockOffset offset;
  bool any = false;
  for (int rank = 1; rank < group.size(); ++rank) {
    any = any || elsewhere(rank);
    if (!elsewhere(rank))
      continue;
    if (group.rank() == 0)
      answer(group, rank, clock);
    else if (group.rank() == rank)
      offset = find_offset(ask(group, clock));
  }
  // The channels are closed on both ends before anybody opens them again.
  if (any)
    barrier(group);
  return offset;
}

}  // namespace trireme::comm
