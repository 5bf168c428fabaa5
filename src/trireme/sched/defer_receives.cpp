// Receives as late as is safe.
#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "trireme/sched/channels.h"
#include "trireme/sched/lower.h"

namespace trireme::sched {
namespace {

using Kind = ActionKind;

// Holds the receives of one rank's list back, each until something needs it. A channel
// keeps its order, so what it brings earlier goes first.
class Held {
 public:
  Held(const ChannelMap& map, std::vector<Action>& out) : map_(map), out_(out) {}

  void hold(const Action& receive) {
    for (const auto& use : map_.uses(receive))
      waiting_[use.channel].push_back(receives_.size());
    places_[key(receive)] = receives_.size();
    receives_.push_back(receive);
    given_.push_back(false);
  }

  /// Puts out what the action needs.
  void give_for(const Action& action) {
    taken_.clear();
    for_each_half(action, [this](const Action& half) {
      const bool forward = half.kind() == Kind::Forward;
      if (!forward && half.kind() != Kind::Backward && half.kind() != Kind::InputGrad)
        return;
      const auto found = places_.find(key(
          {forward ? Kind::ReceiveForward : Kind::ReceiveBackward,
           half.stage(),
           half.microbatch()}));
      if (found != places_.end())
        take(found->second);
    });
    std::sort(taken_.begin(), taken_.end());
    for (const size_t receive : taken_)
      out_.push_back(receives_[receive]);
  }

  /// Puts out the rest.
  void give_all() {
    for (size_t i = 0; i < receives_.size(); ++i)
      if (!given_[i])
        out_.push_back(receives_[i]);
  }

 private:
  using Key = std::tuple<Kind, int, int>;
  static Key key(const Action& action) {
    return {action.kind(), action.stage(), action.microbatch()};
  }

  // With it goes all that its channels bring before it.
  void take(size_t receive) {
    std::vector<size_t> open{receive};
    while (!open.empty()) {
      const size_t next = open.back();
      open.pop_back();
      if (given_[next])
        continue;
      given_[next] = true;
      taken_.push_back(next);
      for (const auto& use : map_.uses(receives_[next])) {
        auto& queue = waiting_[use.channel];
        for (; !queue.empty() && queue.front() <= next; queue.pop_front())
          open.push_back(queue.front());
      }
    }
  }

  const ChannelMap& map_;
  std::vector<Action>& out_;
  std::vector<Action> receives_;
  std::vector<bool> given_;
  std::map<Key, size_t> places_;
  std::map<int, std::deque<size_t>> waiting_;  // by channel
  std::vector<size_t> taken_;
};

}  // namespace

Schedule defer_receives(const Schedule& schedule) {
  const ChannelMap map(schedule);
  Schedule out = schedule;
  for (auto& list : out.actions) {
    const std::vector<Action> early = std::move(list);
    list.clear();
    list.reserve(early.size());
    Held held(map, list);
    for (const Action& action : early) {
      if (is_receive(action.kind())) {
        held.hold(action);
        continue;
      }
      held.give_for(action);
      list.push_back(action);
    }
    held.give_all();
  }
  return out;
}

}  // namespace trireme::sched
