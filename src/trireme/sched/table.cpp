#include "trireme/sched/table.h"

#include <algorithm>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"

namespace trireme::sched {
namespace {

// The part of 0..size-1 that is shown: `most` around `middle`.
struct Window {
  int64_t first;
  int64_t last;
};

Window around(int64_t middle, int64_t size, int64_t most) {
  const int64_t first =
      std::clamp<int64_t>(middle - most / 2, 0, std::max<int64_t>(0, size - most));
  return {.first = first, .last = std::min(first + most, size)};
}

}  // namespace

std::string table_around(const Schedule& schedule, const TableCell& cell) {
  constexpr int64_t kMostSteps = 12, kMostRanks = 8;
  int64_t steps = 0;
  for (const auto& list : schedule.actions)
    steps = std::max(steps, static_cast<int64_t>(list.size()));
  const auto& marked = schedule.actions[static_cast<size_t>(cell.rank)];
  const int64_t bad = cell.step >= 0 ? cell.step : static_cast<int64_t>(marked.size());
  const Window rows = around(bad, std::max(steps, bad + 1), kMostSteps);
  const Window columns = around(cell.rank, schedule.ranks(), kMostRanks);

  std::vector<std::vector<std::string>> lines(1);
  lines[0].emplace_back("");
  for (int64_t rank = columns.first; rank < columns.last; ++rank)
    lines[0].push_back(text("Rank ", rank));
  for (int64_t step = rows.first; step < rows.last; ++step) {
    auto& line = lines.emplace_back();
    line.push_back(text("Step ", step, ":"));
    for (int64_t rank = columns.first; rank < columns.last; ++rank) {
      const auto& list = schedule.actions[static_cast<size_t>(rank)];
      std::string entry = step < static_cast<int64_t>(list.size())
                              ? to_string(list[static_cast<size_t>(step)])
                              : "";
      line.push_back(rank == cell.rank && step == bad ? text(">", entry, "<") : entry);
    }
  }
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  std::string out;
  for (const auto& line : lines) {
    std::string row = "  ";
    for (size_t i = 0; i < line.size(); ++i)
      row += text(line[i], std::string(widths[i] - line[i].size() + 2, ' '));
    out += text(row.substr(0, row.find_last_not_of(' ') + 1), "\n");
  }
  return out;
}

}  // namespace trireme::sched
