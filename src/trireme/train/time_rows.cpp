#include "trireme/train/time_rows.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::train {
namespace {

char letter(sched::ActionKind kind) {
  switch (kind) {
    case sched::ActionKind::Forward:
      return 'F';
    case sched::ActionKind::Backward:
      return 'B';
    case sched::ActionKind::InputGrad:
      return 'I';
    case sched::ActionKind::WeightGrad:
      return 'W';
    default:
      return 'O';
  }
}

}  // namespace

std::string draw_time_rows(const sched::Simulation& simulation, int width) {
  double start = 0;
  bool any = false;
  for (const auto& rank : simulation.timeline)
    for (const sched::Timed& one : rank) {
      start = any ? std::min(start, one.start) : one.start;
      any = true;
    }
  std::string out;
  for (size_t rank = 0; rank < simulation.timeline.size(); ++rank) {
    out += text("rank ", rank, rank < 10 ? "  " : " ");
    const auto& row = simulation.timeline[rank];
    size_t next = 0;
    for (int column = 0; column < width; ++column) {
      const double time = start + (column + 0.5) / width * simulation.makespan;
      while (next < row.size() && row[next].end <= time)
        ++next;
      const bool busy = next < row.size() && row[next].start <= time;
      out += busy ? letter(row[next].action.kind()) : '.';
    }
    out += '\n';
  }
  return out;
}

}  // namespace trireme::train
