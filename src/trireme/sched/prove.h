// Whether the ranks of a lowered schedule can ever wait for one another in a cycle.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/sched/channels.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// How much a channel holds before its sender has to wait.
struct Buffers {
  /// No bound.
  static constexpr int kUnbounded = -1;
  /// Messages; 0 is a rendezvous: a send ends when its message has been received.
  int messages = kUnbounded;
};

/// "rendezvous", "unbounded buffers", "buffers of 3 messages".
std::string to_string(const Buffers& buffers);

/// What is known of a channel.
struct ChannelUse {
  Channel channel;
  /// All that go through it. With room for so many a send never waits.
  int64_t messages = 0;
};

/// A rank that waits, and for whom.
struct Wait {
  int rank = 0;
  Action action;
  int other = 0;
};

/// What came of it.
struct Proof {
  /// The program always runs to its end.
  bool holds = false;
  /// Else why not, in words.
  std::string why;
  /// The shortest cycle of waiting ranks, if there is one.
  std::vector<Wait> cycle;
  /// Where larger buffers help: how many messages a channel has to hold.
  std::optional<int> buffers_needed;
  std::vector<ChannelUse> channels;
  /// The most activations that live on each rank at once: (stage, microbatch) pairs
  /// from F to the end of B or W; in evaluation, during F alone.
  std::vector<int64_t> peak_activations;
};

/// Proves that a lowered schedule cannot lock up, or shows where it does. Every rank
/// carries out its list in order. A receive waits for its message; a send waits while
/// its channel is full. Whoever waits, the rest goes on, and since each channel has one
/// sender and one receiver, the order in which ranks get their turns decides nothing:
/// one run stands for all. InvalidArgument if it is not lowered, or has actions of
/// stages that do not exist or belong to another rank.
Proof prove(const Schedule& lowered, const Buffers& buffers = {});

/// The most that lives at once on a rank, where an activation of a stage counts
/// `weight(stage)` from its F to the end of its B or W. Of an overlap both are there
/// before its backward's is given back. A list without any backward is for evaluation:
/// nothing is kept, so an activation lives during its F alone.
template <class Weight>
auto peak_live(const std::vector<Action>& list, const Weight& weight) {
  decltype(weight(0)) live{}, most{}, largest{};
  bool keeps = false;
  for (const Action& action : list) {
    decltype(weight(0)) ended{};
    for_each_half(action, [&](const Action& half) {
      if (half.kind() == ActionKind::Forward) {
        live += weight(half.stage());
        largest = std::max(largest, weight(half.stage()));
      } else if (gives_weight_grad(half.kind())) {
        ended += weight(half.stage());
        keeps = true;
      }
    });
    most = std::max(most, live);
    live -= ended;
  }
  return keeps ? most : largest;
}

/// The peak of live activations of one rank's list.
int64_t peak_activations(const std::vector<Action>& list);

}  // namespace trireme::sched
