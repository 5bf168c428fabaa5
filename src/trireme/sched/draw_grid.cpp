// The pictures for terminals.
#include <algorithm>
#include <cmath>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/draw.h"

namespace trireme::sched {
namespace {

// The colours of a terminal's background, each readable on both light and dark ones.
const char* color_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return "\x1b[30;46m";
    case ActionKind::Backward:
      return "\x1b[30;42m";
    case ActionKind::InputGrad:
      return "\x1b[30;43m";
    case ActionKind::WeightGrad:
      return "\x1b[30;45m";
    default:
      return "\x1b[30;47m";
  }
}

char letter_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return 'F';
    case ActionKind::Backward:
      return 'B';
    case ActionKind::InputGrad:
      return 'I';
    case ActionKind::WeightGrad:
      return 'W';
    default:
      return 'O';
  }
}

// What stands in a cell: an overlap is long to write out.
std::string cell_text(const Action& action) {
  if (action.kind() != ActionKind::Overlap)
    return to_string(action);
  return text(to_string(action.forward_half()), "+", to_string(action.backward_half()));
}

std::string padded(std::string word, size_t width) {
  word.resize(std::max(width, word.size()), ' ');
  return word;
}

}  // namespace

std::string draw_grid(const Schedule& schedule, bool color) {
  const Simulation simulation = simulate(schedule, {.costs = {}, .details = true});
  // A cell has a unit of time; what takes two has room for two.
  size_t width = 1;
  for (const auto& list : simulation.timeline)
    for (const Timed& timed : list) {
      const double length = std::max(1.0, timed.end - timed.start);
      const auto needed = static_cast<double>(cell_text(timed.action).size() + 1);
      width = std::max(width, static_cast<size_t>(std::ceil(needed / length)));
    }
  const std::string last = text("rank ", schedule.ranks() - 1);
  std::string out;
  for (size_t rank = 0; rank < simulation.timeline.size(); ++rank) {
    std::string line = padded(text("rank ", rank), last.size() + 2);
    double at = 0;
    const auto idle_until = [&](double time) {
      for (; at < time; at += 1)
        line += padded(".", width);
    };
    for (const Timed& timed : simulation.timeline[rank]) {
      idle_until(timed.start);
      const auto cells = static_cast<size_t>(timed.end - timed.start);
      const std::string word = padded(cell_text(timed.action), width * cells - 1);
      line += color ? text(color_of(timed.action.kind()), word, "\x1b[0m ")
                    : text(word, " ");
      at = timed.end;
    }
    idle_until(simulation.makespan);
    out += text(line.substr(0, line.find_last_not_of(' ') + 1), "\n");
  }
  return out;
}

std::string draw_time_rows(const Simulation& simulation, int width) {
  double start = 0;
  bool any = false;
  for (const auto& rank : simulation.timeline)
    for (const Timed& one : rank) {
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
      out += busy ? letter_of(row[next].action.kind()) : '.';
    }
    out += '\n';
  }
  return out;
}

}  // namespace trireme::sched
