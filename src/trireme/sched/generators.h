// The orders themselves, each from its formula; generate.cpp checks and calls them.
#pragma once
#include <vector>

#include "trireme/sched/action.h"

namespace trireme::sched {

/// The letters that formulas of schedules are written in.
namespace letters {
inline constexpr auto F = ActionKind::Forward;
inline constexpr auto B = ActionKind::Backward;
inline constexpr auto I = ActionKind::InputGrad;
inline constexpr auto W = ActionKind::WeightGrad;
}  // namespace letters

/// One rank of a pipeline of P ranks with V stages each and M microbatches, all legal.
struct OneRank {
  int rank = 0;
  int P = 1;
  int V = 1;
  int M = 1;
};

using ActionList = std::vector<Action>;

ActionList forward_only(const OneRank& at);
ActionList gpipe(const OneRank& at);
ActionList one_f_one_b(const OneRank& at);
ActionList eager_1f1b(const OneRank& at);
ActionList looped_bfs(const OneRank& at);
ActionList interleaved_1f1b(const OneRank& at);
ActionList zb_h1(const OneRank& at);
ActionList zb_h2(const OneRank& at);
ActionList zbv(const OneRank& at);
ActionList dual_pipe_v(const OneRank& at);

/// These need all ranks at once: what one does depends on when others are done.
std::vector<ActionList> interleaved_zero_bubble(int P, int V, int M);
std::vector<ActionList> v_half(int P, int M);
std::vector<ActionList> v_min(int P, int M);

/// Groups of microbatches of the interleaved schedules: G = M / max(1, floor(M / P)),
/// which has to be whole; 0 if it is not.
int interleaved_group(int P, int M);

}  // namespace trireme::sched
