// The schedules with a fused backward.
#include <algorithm>

#include "trireme/sched/generators.h"

namespace trireme::sched {
namespace {

using namespace letters;

void add_bubbles(ActionList& list, int count) {
  list.insert(list.end(), static_cast<size_t>(std::max(0, count)), Action());
}

// One stage a rank: so many forwards first, then in turn, then the backwards that are
// left.
ActionList in_turn(const OneRank& at, int warm_up) {
  ActionList list;
  int f = 0;
  for (; f < warm_up; ++f)
    list.emplace_back(F, at.rank, f);
  for (int b = 0; b < at.M; ++b) {
    list.emplace_back(B, at.rank, b);
    if (f < at.M)
      list.emplace_back(F, at.rank, f++);
  }
  return list;
}

}  // namespace

int interleaved_group(int P, int M) {
  const int rounds = std::max(1, M / P);
  return M % rounds == 0 ? M / rounds : 0;
}

ActionList forward_only(const OneRank& at) {
  ActionList list;
  for (int v = 0; v < at.V; ++v)
    for (int m = 0; m < at.M; ++m)
      list.emplace_back(F, at.rank + v * at.P, m);
  return list;
}

ActionList gpipe(const OneRank& at) {
  ActionList list;
  add_bubbles(list, at.rank);
  for (int m = 0; m < at.M; ++m)
    list.emplace_back(F, at.rank, m);
  add_bubbles(list, 3 * (at.P - 1 - at.rank));
  for (int m = 0; m < at.M; ++m)
    list.emplace_back(B, at.rank, m);
  return list;
}

ActionList one_f_one_b(const OneRank& at) {
  return in_turn(at, std::min(at.M, at.P - at.rank));
}

ActionList eager_1f1b(const OneRank& at) {
  return in_turn(at, std::min(at.M, 2 * (at.P - at.rank) - 1));
}

ActionList looped_bfs(const OneRank& at) {
  ActionList list;
  add_bubbles(list, at.rank);
  for (int v = 0; v < at.V; ++v)
    for (int m = 0; m < at.M; ++m)
      list.emplace_back(F, at.rank + v * at.P, m);
  add_bubbles(list, 2 * (at.P - 1 - at.rank));
  for (int v = at.V - 1; v >= 0; --v)
    for (int m = at.M - 1; m >= 0; --m)
      list.emplace_back(B, at.rank + v * at.P, m);
  return list;
}

ActionList interleaved_1f1b(const OneRank& at) {
  const int G = interleaved_group(at.P, at.M);
  const int total = at.V * at.M;
  const int warm_up = std::min((at.V - 1) * G + 2 * (at.P - 1 - at.rank), total);
  std::vector<int> forwards(static_cast<size_t>(at.V)), backwards(forwards);
  ActionList list;
  const auto forward = [&](int i) {
    const int v = i / G % at.V;
    list.emplace_back(F, v * at.P + at.rank, forwards[static_cast<size_t>(v)]++);
  };
  const auto backward = [&](int i) {
    const int v = at.V - 1 - (i - warm_up) / G % at.V;
    list.emplace_back(B, v * at.P + at.rank, backwards[static_cast<size_t>(v)]++);
  };
  add_bubbles(list, at.rank);
  for (int i = 0; i < warm_up; ++i)
    forward(i);
  if (warm_up > 0)  // torch waits after a warm-up only
    add_bubbles(list, at.V * at.P + 2 * (at.P - 1 - at.rank) - (warm_up + at.rank));
  for (int i = warm_up; i < total; ++i) {
    forward(i);
    backward(i);
  }
  for (int i = total; i < total + warm_up; ++i) {
    add_bubbles(list, 1);
    backward(i);
  }
  return list;
}

}  // namespace trireme::sched
