// Where sends and receives go.
#include <algorithm>
#include <bit>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/index.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/wait_cycle.h"

namespace trireme::sched {
namespace {

using Kind = ActionKind;

// A set of ranks that is walked in ascending order while ranks above are added.
class RankSet {
 public:
  explicit RankSet(int ranks) : words_((index(ranks) + 63) / 64) {}
  void add(int rank) { words_[index(rank) / 64] |= uint64_t{1} << (rank % 64); }
  /// Takes out the lowest rank from `from` on; -1 if there is none.
  int take(int from) {
    for (size_t word = index(from) / 64; word < words_.size(); ++word) {
      const uint64_t mask =
          word == index(from) / 64 ? ~uint64_t{0} << (from % 64) : ~uint64_t{0};
      if (const uint64_t bits = words_[word] & mask; bits != 0) {
        const int place = std::countr_zero(bits);
        words_[word] &= ~(uint64_t{1} << place);
        return static_cast<int>(word * 64) + place;
      }
    }
    return -1;
  }

 private:
  std::vector<uint64_t> words_;
};

// Walks all ranks in rounds, one action a rank and round; a message is sent and
// received at the same point of this walk. So every list is a projection of one common
// order, and no execution of the lists can wait in a cycle, with whatever buffers. (A
// stage with inputs from several ranks has one receive for all, at the last one's
// point: the others' messages need a buffer until then.)
class MessageWalk {
 public:
  explicit MessageWalk(const Schedule& schedule)
      : in_(schedule),
        out_(schedule),
        graph_(schedule),
        next_(schedule.actions.size()),
        now_(schedule.ranks()),
        later_(schedule.ranks()),
        states_(index(schedule.stages()) * index(schedule.microbatches)) {
    for (size_t rank = 0; rank < out_.actions.size(); ++rank) {
      out_.actions[rank].clear();
      out_.actions[rank].reserve(3 * in_.actions[rank].size());
    }
    out_.lowered = true;
    count_remote();
  }

  Schedule run() {
    for (int rank = 0; rank < in_.ranks(); ++rank)
      later_.add(rank);
    bool progress = true;
    while (progress) {
      std::swap(now_, later_);
      progress = false;
      // A rank that gets its message from a lower one may still act in this round.
      for (int rank = now_.take(0); rank >= 0; rank = now_.take(rank)) {
        current_ = rank;
        progress = act() || progress;
      }
    }
    check_done();
    return std::move(out_);
  }

 private:
  /// How far a stage's microbatch is; the counts are of messages still to come.
  struct State {
    bool forward = false;
    bool input = false;
    uint16_t forward_missing = 0;
    uint16_t backward_missing = 0;
  };

  State& state(int stage, int microbatch) {
    return states_[index(stage) * index(in_.microbatches) + index(microbatch)];
  }

  void count_remote() {
    for (int stage = 0; stage < in_.stages(); ++stage) {
      const auto remote = [&](const std::vector<int>& others) {
        return static_cast<uint16_t>(
            std::count_if(others.begin(), others.end(), [&](int other) {
              return in_.owner(other) != in_.owner(stage);
            }));
      };
      const uint16_t before = remote(graph_.before(stage));
      const uint16_t after = remote(graph_.after(stage));
      for (int m = 0; m < in_.microbatches; ++m) {
        state(stage, m).forward_missing = before;
        state(stage, m).backward_missing = after;
      }
    }
  }

  bool ready(const Action& action) {
    bool all = true;
    for_each_half(action, [&](const Action& half) {
      const int m = half.microbatch();
      const auto local = [&](const std::vector<int>& others, bool State::*done) {
        return std::all_of(others.begin(), others.end(), [&](int other) {
          return in_.owner(other) != current_ || state(other, m).*done;
        });
      };
      if (half.kind() == Kind::Forward)
        all = all && state(half.stage(), m).forward_missing == 0 &&
              local(graph_.before(half.stage()), &State::forward);
      else if (gives_input_grad(half.kind()))
        all = all && state(half.stage(), m).backward_missing == 0 &&
              local(graph_.after(half.stage()), &State::input);
    });
    return all;
  }

  // The head of the current rank's list, if it can go; false if it has to wait.
  bool act() {
    const auto& list = in_.actions[index(current_)];
    size_t& next = next_[index(current_)];
    if (next == list.size() || !ready(list[next]))
      return false;
    out_.actions[index(current_)].push_back(list[next]);
    for_each_half(list[next], [this](const Action& half) { finish(half); });
    ++next;
    later_.add(current_);
    return true;
  }

  void finish(const Action& action) {
    const int stage = action.stage(), m = action.microbatch();
    if (action.kind() == Kind::Forward) {
      state(stage, m).forward = true;
      send(action, Kind::SendForward, Kind::ReceiveForward, graph_.after(stage));
    } else if (gives_input_grad(action.kind())) {
      state(stage, m).input = true;
      send(action, Kind::SendBackward, Kind::ReceiveBackward, graph_.before(stage));
    }
  }

  void send(
      const Action& action, Kind out, Kind in, const std::vector<int>& receivers) {
    const int m = action.microbatch();
    bool sent = false;
    for (const int stage : receivers) {
      const int owner = in_.owner(stage);
      if (owner == current_)
        continue;
      if (!sent)
        out_.actions[index(current_)].emplace_back(out, action.stage(), m);
      sent = true;
      State& there = state(stage, m);
      uint16_t& missing =
          in == Kind::ReceiveForward ? there.forward_missing : there.backward_missing;
      if (--missing == 0) {
        out_.actions[index(owner)].emplace_back(in, stage, m);
        (owner > current_ ? now_ : later_).add(owner);
      }
    }
  }

  // The stage whose result a rank that cannot go on waits for; -1 at its end.
  int awaited(int rank) {
    const auto& list = in_.actions[index(rank)];
    if (next_[index(rank)] == list.size())
      return -1;
    int stage = -1;
    for_each_half(list[next_[index(rank)]], [&](const Action& half) {
      const bool forward = half.kind() == Kind::Forward;
      const auto& others =
          forward ? graph_.before(half.stage()) : graph_.after(half.stage());
      for (const int other : others) {
        const State& source = state(other, half.microbatch());
        if (stage < 0 && !(forward ? source.forward : source.input))
          stage = other;
      }
    });
    return stage;
  }

  void check_done() {
    const auto next = [this](int rank) {
      const int stage = awaited(rank);
      return stage < 0 ? -1 : in_.owner(stage);
    };
    std::string waiting;
    for (const int rank : shortest_cycle(in_.ranks(), next))
      waiting += text(
          waiting.empty() ? "" : ", ",
          "rank ",
          rank,
          " waits at ",
          to_string(in_.actions[index(rank)][next_[index(rank)]]),
          " for stage ",
          awaited(rank),
          " of rank ",
          in_.owner(awaited(rank)));
    if (!waiting.empty())
      throw InvalidArgument(text(
          "[sched] expected a schedule that can run, but ",
          waiting,
          ", and so on in a cycle; no size of buffers helps: put the actions into "
          "another order"));
  }

  const Schedule& in_;
  Schedule out_;
  const StageGraph graph_;
  std::vector<size_t> next_;
  RankSet now_;
  RankSet later_;
  std::vector<State> states_;
  int current_ = 0;
};

}  // namespace

Schedule add_messages(const Schedule& schedule) {
  return MessageWalk(schedule).run();
}

}  // namespace trireme::sched
