// The schedules that split a backward into I and W, rank by rank.
#include <algorithm>
#include <array>
#include <deque>

#include "trireme/sched/generators.h"

namespace trireme::sched {
namespace {

using namespace letters;

// One rank with two stages on the V map: a on the way there, b on the way back. Every
// kind counts the microbatches of its stage by itself.
class VRank {
 public:
  explicit VRank(const OneRank& at) : a(at.rank), b(2 * at.P - 1 - at.rank) {}

  const int a;
  const int b;
  ActionList list;

  void forward(int stage) { list.emplace_back(F, stage, next(forwards_, stage)++); }
  void input(int stage) { list.emplace_back(I, stage, next(inputs_, stage)++); }
  void weight(int stage) { list.emplace_back(W, stage, next(weights_, stage)++); }

  int forwards(int stage) { return next(forwards_, stage); }
  int inputs(int stage) { return next(inputs_, stage); }
  int weights(int stage) { return next(weights_, stage); }

  /// The backward's microbatch, for kinds that share the count of inputs.
  int take_input(int stage) { return next(inputs_, stage)++; }
  int take_forward(int stage) { return next(forwards_, stage)++; }

 private:
  using Counts = std::array<int, 2>;
  int& next(Counts& counts, int stage) { return counts[stage == a ? 0 : 1]; }
  Counts forwards_{};
  Counts inputs_{};
  Counts weights_{};
};

// DualPipeV's weights are done in the order of their inputs, whatever the stage.
class DualRank : public VRank {
 public:
  using VRank::VRank;

  void input(int stage) {
    waiting_.push_back({stage, take_input(stage)});
    list.emplace_back(I, stage, waiting_.back().microbatch);
  }
  void backward(int stage) { list.emplace_back(B, stage, take_input(stage)); }
  void weight() {
    if (waiting_.empty())
      return;
    list.emplace_back(W, waiting_.front().stage, waiting_.front().microbatch);
    waiting_.pop_front();
  }
  void overlap(int forward_stage, int backward_stage) {
    const int forward = take_forward(forward_stage);
    list.push_back(Action::overlap(
        {forward_stage, forward}, {backward_stage, take_input(backward_stage)}));
  }

 private:
  std::deque<Action::Place> waiting_;
};

}  // namespace

ActionList zb_h1(const OneRank& at) {
  ActionList list;
  int f = 0, i = 0, w = 0;
  while (f < std::min(at.P - 1 - at.rank, at.M))
    list.emplace_back(F, at.rank, f++);
  while (i < at.M) {
    if (f < at.M)
      list.emplace_back(F, at.rank, f++);
    list.emplace_back(I, at.rank, i++);
    if (i - w > at.rank)
      list.emplace_back(W, at.rank, w++);
  }
  while (w < at.M)
    list.emplace_back(W, at.rank, w++);
  return list;
}

ActionList zb_h2(const OneRank& at) {
  ActionList list;
  int f = 0, i = 0, w = 0;
  while (f < std::min(2 * (at.P - 1 - at.rank) + 1, at.M))
    list.emplace_back(F, at.rank, f++);
  while (i < at.M) {
    list.emplace_back(I, at.rank, i++);
    if (i - w > 2 * at.rank)
      list.emplace_back(W, at.rank, w++);
    if (f < at.M)
      list.emplace_back(F, at.rank, f++);
  }
  while (w < at.M)
    list.emplace_back(W, at.rank, w++);
  return list;
}

ActionList zbv(const OneRank& at) {
  const int r = at.rank, P = at.P;
  // The order is made for at least so many; what is beyond M becomes bubbles.
  const int N = std::max(2 * P - 1, at.M);
  VRank rank(at);
  const int a = rank.a, b = rank.b;
  const auto both = [&rank](int stage) {
    rank.input(stage);
    rank.weight(stage);
  };
  rank.list.insert(rank.list.end(), static_cast<size_t>(r), Action());
  for (int i = 0; i < 2 * (P - r) - 1; ++i)
    rank.forward(a);
  for (int i = 0; i < r; ++i) {
    rank.forward(b);
    rank.forward(a);
  }
  for (int i = 0; i < P - r; ++i) {
    rank.forward(b);
    both(b);
  }
  while (rank.forwards(b) < rank.forwards(a) || rank.forwards(a) < N) {
    if (rank.forwards(a) < N)
      rank.forward(a);
    both(a);
    rank.forward(b);
    both(b);
  }
  for (int i = 0; i < r; ++i) {
    rank.input(a);
    rank.input(b);
  }
  for (int i = 0; i < P - r; ++i)
    both(a);
  for (const int stage : {b, a})
    while (rank.weights(stage) < rank.inputs(stage))
      rank.weight(stage);
  for (Action& action : rank.list)
    if (action.microbatch() >= at.M)
      action = Action();
  return std::move(rank.list);
}

ActionList dual_pipe_v(const OneRank& at) {
  const int r = at.rank, P = at.P;
  DualRank rank(at);
  const int a = rank.a, b = rank.b;
  for (int i = 0; i < 2 * (P - r - 1); ++i)
    rank.forward(a);
  for (int i = 0; i < r + 1; ++i) {
    rank.forward(a);
    rank.forward(b);
  }
  for (int i = 0; i < P - r - 1; ++i) {
    rank.input(b);
    rank.weight();
    rank.forward(b);
  }
  for (int i = 0; i < at.M - 2 * P + r + 1; ++i) {
    if (i == 0 && r == P - 1) {
      rank.forward(a);
      rank.backward(b);
    } else {
      rank.overlap(a, b);
    }
    rank.overlap(b, a);
  }
  for (int i = 0; i < P - r - 1; ++i) {
    rank.backward(b);
    rank.overlap(b, a);
  }
  bool split = false;
  const auto finish = [&rank, &split](int stage) {
    split ? rank.input(stage) : rank.backward(stage);
  };
  for (int i = 0; i <= r; ++i) {
    const bool turn = i == (r + 1) / 2;
    split = split || (turn && r % 2 == 1);
    finish(b);
    split = split || turn;
    finish(a);
  }
  for (int i = 0; i < P - r - 1; ++i) {
    rank.weight();
    finish(a);
  }
  for (int i = 0; i < r + 1; ++i)
    rank.weight();
  return std::move(rank.list);
}

}  // namespace trireme::sched
