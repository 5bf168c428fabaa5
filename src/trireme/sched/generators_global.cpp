// The schedules in which a rank's order depends on when other ranks are done.
#include <algorithm>
#include <array>
#include <deque>

#include "trireme/sched/generators.h"
#include "trireme/sched/index.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {
namespace {

using namespace letters;

// What has been computed so far: forwards and gradients, by stage and microbatch.
class Done {
 public:
  Done(int stages, int microbatches)
      : stages_(stages),
        microbatches_(microbatches),
        forwards_(index(stages) * index(microbatches)),
        inputs_(forwards_.size()) {}

  void note(const Action& action) {
    if (action.kind() == F)
      forwards_[place(action.stage(), action.microbatch())] = true;
    else if (action.kind() == I)
      inputs_[place(action.stage(), action.microbatch())] = true;
  }

  /// Whether what the action needs of other stages is there; a last stage's gradient
  /// needs its own forward.
  bool ready(const Action& action) const {
    const int s = action.stage(), m = action.microbatch();
    if (action.kind() == F)
      return s == 0 || forwards_[place(s - 1, m)];
    if (action.kind() == I)
      return s == stages_ - 1 ? forwards_[place(s, m)] : inputs_[place(s + 1, m)];
    return true;
  }

 private:
  size_t place(int stage, int microbatch) const {
    return index(stage) * index(microbatches_) + index(microbatch);
  }
  int stages_;
  int microbatches_;
  std::vector<bool> forwards_;
  std::vector<bool> inputs_;
};

ActionList zero_bubble_core(const OneRank& at) {
  const int G = interleaved_group(at.P, at.M);
  const int total = at.V * at.M;
  const int warm_up = std::min((at.V - 1) * G + at.P - 1 - at.rank, total);
  std::vector<int> forwards(index(at.V)), inputs(forwards), weights(forwards);
  std::deque<int> waiting;
  ActionList list(index(at.rank));
  const auto forward = [&](int i) {
    const int v = i / G % at.V;
    list.emplace_back(F, v * at.P + at.rank, forwards[index(v)]++);
  };
  const auto weight = [&] {
    const int v = waiting.front();
    waiting.pop_front();
    list.emplace_back(W, v * at.P + at.rank, weights[index(v)]++);
  };
  const auto input = [&](int i) {
    const int v = at.V - 1 - (i - warm_up) / G % at.V;
    list.emplace_back(I, v * at.P + at.rank, inputs[index(v)]++);
    waiting.push_back(v);
    // A rank holds its weights back by as many operations as its number says.
    if (i - warm_up >= at.rank)
      weight();
  };
  for (int i = 0; i < warm_up; ++i)
    forward(i);
  list.insert(list.end(), index(at.P - 1 - at.rank), Action());
  for (int i = warm_up; i < total + warm_up; ++i) {
    if (i < total)
      forward(i);
    input(i);
  }
  while (!waiting.empty())
    weight();
  return list;
}

// All ranks in step, one cell a time: where a forward's input is not there yet, a
// bubble shows that the rank waits. Gradients get none, as in torch.
std::vector<ActionList> with_bubbles(
    const std::vector<ActionList>& lists, int stages, int microbatches) {
  Done done(stages, microbatches);
  std::vector<ActionList> out(lists.size());
  std::vector<size_t> next(lists.size());
  std::vector<Action> now;
  for (bool busy = true; busy;) {
    busy = false;
    now.clear();
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      if (next[rank] == lists[rank].size())
        continue;
      busy = true;
      const Action action = lists[rank][next[rank]];
      const bool ready = action.kind() != F || done.ready(action);
      out[rank].push_back(ready ? action : Action());
      next[rank] += ready ? 1 : 0;
      if (ready)
        now.push_back(action);
    }
    for (const Action& action : now)
      done.note(action);
  }
  return out;
}

// The repeating block of V-Half and V-Min: when microbatch 0 has its four actions on
// rank r; microbatch i has them 6i later.
struct Block {
  int forward_a;
  int forward_b;
  int input_b;
  int input_a;
};

// F and I of one rank in the order of their times.
ActionList core_order(const Block& block, int r, int P, int M) {
  constexpr int kPeriod = 6;
  const int a = r, b = 2 * P - 1 - r;
  std::vector<std::pair<int, Action>> timed;
  for (int i = 0; i < M; ++i) {
    const int shift = kPeriod * i;
    timed.emplace_back(block.forward_a + shift, Action(F, a, i));
    timed.emplace_back(block.forward_b + shift, Action(F, b, i));
    timed.emplace_back(block.input_b + shift, Action(I, b, i));
    timed.emplace_back(block.input_a + shift, Action(I, a, i));
  }
  std::stable_sort(timed.begin(), timed.end(), [](const auto& x, const auto& y) {
    return x.first < y.first;
  });
  ActionList list;
  for (const auto& [time, action] : timed)
    list.push_back(action);
  return list;
}

// Runs all ranks in time, each action one unit: a rank takes the head of its core order
// if it can, else a weight that waits, else nothing.
std::vector<ActionList> fill_weights(
    const std::vector<ActionList>& cores, int M, int most_live) {
  const size_t ranks = cores.size();
  Done done(static_cast<int>(2 * ranks), M);
  std::vector<ActionList> out(ranks);
  std::vector<size_t> next(ranks);
  std::vector<std::deque<Action>> waiting(ranks);
  std::vector<int> live(ranks);
  std::vector<Action> now;
  for (bool busy = true; busy;) {
    busy = false;
    now.clear();
    for (size_t r = 0; r < ranks; ++r) {
      const bool more = next[r] < cores[r].size();
      busy = busy || more || !waiting[r].empty();
      if (more && done.ready(cores[r][next[r]]) &&
          (cores[r][next[r]].kind() != F || live[r] < most_live)) {
        now.push_back(cores[r][next[r]++]);
        live[r] += now.back().kind() == F ? 1 : 0;
      } else if (!waiting[r].empty()) {
        now.push_back(waiting[r].front());
        waiting[r].pop_front();
        --live[r];
      } else {
        continue;
      }
      out[r].push_back(now.back());
      if (now.back().kind() == I)
        waiting[r].emplace_back(W, now.back().stage(), now.back().microbatch());
    }
    if (now.empty())
      break;
    for (const Action& action : now)
      done.note(action);
  }
  return out;
}

template <class BlockOf>
std::vector<ActionList> v_schedule(int P, int M, int most_live, const BlockOf& block) {
  std::vector<ActionList> cores;
  for (int r = 0; r < P; ++r)
    cores.push_back(core_order(block(r), r, P, M));
  return fill_weights(cores, M, most_live);
}

}  // namespace

std::vector<ActionList> interleaved_zero_bubble(int P, int V, int M) {
  std::vector<ActionList> lists;
  for (int rank = 0; rank < P; ++rank)
    lists.push_back(zero_bubble_core({.rank = rank, .P = P, .V = V, .M = M}));
  return with_bubbles(lists, P * V, M);
}

std::vector<ActionList> v_half(int P, int M) {
  const int g = P % 2 == 0 ? 3 : 0;
  return v_schedule(P, M, 2 * ((P + 2) / 2), [P, g](int r) {
    return Block{
        .forward_a = 2 * r,
        .forward_b = 3 * P - 2 - r,
        .input_b = 3 * P - 1 + g + 2 * r,
        .input_a = 6 * P - 2 + g - r};
  });
}

std::vector<ActionList> v_min(int P, int M) {
  const int g = P % 3 == 0 ? 2 : 0;
  return v_schedule(P, M, 2 * ((P + 4) / 3), [P, g](int r) {
    return Block{
        .forward_a = r,
        .forward_b = 2 * P - 1 - r,
        .input_b = 2 * P + g + r,
        .input_a = 4 * P + g - 1 - r};
  });
}

}  // namespace trireme::sched
