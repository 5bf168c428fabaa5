#include "trireme/sched/knowledge.h"

#include <algorithm>
#include <deque>

#include "trireme/sched/index.h"

namespace trireme::sched {
namespace {

/// By rank: the steps of its list that have been carried out for sure.
using Clock = std::vector<uint32_t>;

class KnowledgeWalk {
 public:
  KnowledgeWalk(const Schedule& lowered, const ChannelMap& map)
      : lowered_(lowered),
        map_(map),
        clocks_(lowered.actions.size(), Clock(lowered.actions.size())),
        at_(lowered.actions.size()),
        under_way_(map.channels().size()),
        progress_(map.channels().size()) {}

  std::vector<std::vector<uint32_t>> run() {
    for (int rank = lowered_.ranks(); rank-- > 0;)
      ready_.push_back(rank);
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    return std::move(progress_);
  }

 private:
  /// Where a rank is: in which action, and which of its messages.
  struct Position {
    size_t step = 0;
    size_t use = 0;
  };

  void advance(int rank) {
    const auto& list = lowered_.actions[index(rank)];
    Position& at = at_[index(rank)];
    for (; at.step < list.size(); ++at.step, at.use = 0) {
      clocks_[index(rank)][index(rank)] = static_cast<uint32_t>(at.step);
      const auto& uses = map_.uses(list[at.step]);
      for (; at.use < uses.size(); ++at.use) {
        const int channel = uses[at.use].channel;
        if (is_send(list[at.step].kind()))
          send(rank, channel);
        else if (!receive(rank, channel))
          return;
      }
    }
  }

  void send(int rank, int channel) {
    const int receiver = map_.channels()[index(channel)].to;
    progress_[index(channel)].push_back(clocks_[index(rank)][index(receiver)]);
    under_way_[index(channel)].push_back(clocks_[index(rank)]);
    ready_.push_back(receiver);
  }

  // Who receives a message knows what its sender knew.
  bool receive(int rank, int channel) {
    auto& messages = under_way_[index(channel)];
    if (messages.empty())
      return false;
    Clock& own = clocks_[index(rank)];
    for (size_t i = 0; i < own.size(); ++i)
      own[i] = std::max(own[i], messages.front()[i]);
    messages.pop_front();
    return true;
  }

  const Schedule& lowered_;
  const ChannelMap& map_;
  std::vector<Clock> clocks_;
  std::vector<Position> at_;
  std::vector<std::deque<Clock>> under_way_;
  std::vector<std::vector<uint32_t>> progress_;
  std::vector<int> ready_;
};

}  // namespace

std::vector<std::vector<uint32_t>> receiver_progress(
    const Schedule& lowered, const ChannelMap& map) {
  return KnowledgeWalk(lowered, map).run();
}

}  // namespace trireme::sched
