#include "trireme/sched/prove.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/index.h"
#include "trireme/sched/message_order.h"
#include "trireme/sched/validate.h"
#include "trireme/sched/wait_cycle.h"

namespace trireme::sched {
namespace {

// Runs a lowered program without doing anything: who can go on goes on.
class Run {
 public:
  Run(const Schedule& schedule, const ChannelMap& map, const Buffers& buffers)
      : schedule_(schedule),
        map_(map),
        buffers_(buffers),
        at_(schedule.actions.size()),
        traffic_(map.channels().size()) {}

  /// Whether all ranks come to their ends.
  bool finish() {
    std::vector<int> ready;
    for (int rank = schedule_.ranks(); rank-- > 0;)
      ready.push_back(rank);
    while (!ready.empty()) {
      const int rank = ready.back();
      ready.pop_back();
      advance(rank, ready);
    }
    for (int rank = 0; rank < schedule_.ranks(); ++rank)
      if (waits(rank))
        return false;
    return true;
  }

  /// What a rank that has not come to its end waits for.
  std::optional<Wait> waits(int rank) const {
    const auto& list = schedule_.actions[index(rank)];
    const Position& at = at_[index(rank)];
    if (at.action == list.size())
      return std::nullopt;
    const Channel& channel =
        map_.channels()[index(map_.uses(list[at.action])[at.use].channel)];
    return Wait{
        .rank = rank,
        .action = list[at.action],
        .other = channel.from == rank ? channel.to : channel.from};
  }

 private:
  /// Where a rank is: in which action, and which of its messages. A send that waits has
  /// posted its message already.
  struct Position {
    size_t action = 0;
    size_t use = 0;
    bool posted = false;
  };
  struct Traffic {
    int64_t sent = 0;
    int64_t received = 0;
  };

  void advance(int rank, std::vector<int>& ready) {
    const auto& list = schedule_.actions[index(rank)];
    Position& at = at_[index(rank)];
    for (; at.action < list.size(); ++at.action, at.use = 0) {
      const Action& action = list[at.action];
      const auto& uses = map_.uses(action);
      for (; at.use < uses.size(); ++at.use)
        if (!pass(action, uses[at.use].channel, at, ready))
          return;
    }
  }

  bool pass(const Action& action, int number, Position& at, std::vector<int>& ready) {
    Traffic& traffic = traffic_[index(number)];
    const Channel& channel = map_.channels()[index(number)];
    if (is_receive(action.kind())) {
      if (traffic.received == traffic.sent)
        return false;
      ++traffic.received;
      ready.push_back(channel.from);
      return true;
    }
    if (!at.posted) {
      ++traffic.sent;
      ready.push_back(channel.to);
      at.posted = true;
    }
    if (buffers_.messages >= 0 && traffic.sent - traffic.received > buffers_.messages)
      return false;
    at.posted = false;
    return true;
  }

  const Schedule& schedule_;
  const ChannelMap& map_;
  Buffers buffers_;
  std::vector<Position> at_;
  std::vector<Traffic> traffic_;
};

std::string wait_text(const Wait& wait) {
  return text(
      "rank ",
      wait.rank,
      " waits at ",
      to_string(wait.action),
      is_receive(wait.action.kind()) ? " for a message of rank "
                                     : " for room in the channel to rank ",
      wait.other);
}

std::string cycle_text(const Run& run, const std::vector<Wait>& cycle, int ranks) {
  std::string out;
  for (const Wait& wait : cycle)
    out += text(out.empty() ? "" : ", ", wait_text(wait));
  if (!out.empty())
    return text(out, ", and so on in a cycle");
  // No cycle: somebody waits for a rank that has come to its end.
  for (int rank = 0; rank < ranks; ++rank)
    if (const auto wait = run.waits(rank); wait && !run.waits(wait->other))
      return text(wait_text(*wait), ", which has come to its end");
  return "some ranks never end";
}

// The smallest buffers with which the program ends; nothing if none do.
std::optional<int> smallest_buffers(
    const Schedule& schedule, const ChannelMap& map, int64_t most) {
  const auto works = [&](int64_t size) {
    return Run(schedule, map, {.messages = static_cast<int>(size)}).finish();
  };
  if (!Run(schedule, map, {}).finish())
    return std::nullopt;
  int64_t low = 0, high = std::max<int64_t>(1, most);
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (works(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return static_cast<int>(low);
}

}  // namespace

std::string to_string(const Buffers& buffers) {
  if (buffers.messages == Buffers::kUnbounded)
    return "unbounded buffers";
  if (buffers.messages == 0)
    return "rendezvous";
  return text(
      "buffers of ",
      buffers.messages,
      buffers.messages == 1 ? " message" : " messages");
}

int64_t peak_activations(const std::vector<Action>& list) {
  return peak_live(list, [](int) { return int64_t{1}; });
}

Proof prove(const Schedule& lowered, const Buffers& buffers) {
  if (!lowered.lowered)
    throw InvalidArgument(
        "[sched] expected a lowered schedule to prove, got a compute-only one; lower() "
        "it "
        "first");
  check_places(lowered);
  Proof proof;
  for (const auto& list : lowered.actions)
    proof.peak_activations.push_back(peak_activations(list));
  const ChannelMap map(lowered);
  const MessageOrder order(lowered, map);
  proof.why = order.first_mismatch();
  if (!proof.why.empty())
    return proof;
  int64_t most = 0;
  for (size_t i = 0; i < map.channels().size(); ++i) {
    proof.channels.push_back(
        {.channel = map.channels()[i], .messages = order.messages(i)});
    most = std::max(most, order.messages(i));
  }
  Run run(lowered, map, buffers);
  proof.holds = run.finish();
  if (proof.holds)
    return proof;
  const auto next = [&run](int rank) {
    const auto wait = run.waits(rank);
    return wait ? wait->other : -1;
  };
  for (const int rank : shortest_cycle(lowered.ranks(), next))
    proof.cycle.push_back(*run.waits(rank));
  proof.why = text(
      "with ", to_string(buffers), " ", cycle_text(run, proof.cycle, lowered.ranks()));
  proof.buffers_needed = smallest_buffers(lowered, map, most);
  return proof;
}

}  // namespace trireme::sched
