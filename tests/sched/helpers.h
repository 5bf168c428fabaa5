// What several tests of schedules share.
#pragma once
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/costs.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/schedule.h"
#include "trireme/testing/message.h"

namespace trireme::sched {

/// The message of the InvalidArgument that `body` throws; empty if it throws none.
template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

using testing::contains;

/// A schedule from rows of cells.
inline Schedule from_rows(const std::vector<std::string>& rows) {
  std::string file;
  for (const std::string& row : rows)
    file += text(row, "\n");
  return parse_csv(file, "test.csv");
}

inline std::vector<std::string> rows_of(const Schedule& schedule) {
  std::vector<std::string> rows;
  const std::string csv = to_csv(schedule);
  for (size_t start = 0; start < csv.size();) {
    const size_t end = csv.find('\n', start);
    rows.push_back(csv.substr(start, end - start));
    start = end + 1;
  }
  return rows;
}

/// Rows without their empty cells.
inline std::vector<std::string> without_empty(std::vector<std::string> rows) {
  for (std::string& row : rows) {
    std::string cells;
    for (size_t start = 0; start <= row.size();) {
      const size_t end = std::min(row.find(',', start), row.size());
      if (end > start)
        cells += text(cells.empty() ? "" : ",", row.substr(start, end - start));
      start = end + 1;
    }
    row = cells;
  }
  return rows;
}

/// Whether both are the same but for their names.
inline bool same(const Schedule& a, const Schedule& b) {
  return a.microbatches == b.microbatches && a.rank_of_stage == b.rank_of_stage &&
         a.lowered == b.lowered && a.actions == b.actions;
}

/// A schedule's name and size, legal.
struct NamedSize {
  std::string name;
  ScheduleSize size;

  Schedule make() const { return generate(name, size); }
  std::string describe() const {
    return text(
        name, " P", size.ranks, " V", size.stages_per_rank, " M", size.microbatches);
  }
};

/// Draws until one is legal.
inline NamedSize random_size(std::mt19937& random, int most_ranks, int most_rounds) {
  const auto draw = [&random](int least, int most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  for (;;) {
    const auto all = all_schedules();
    const ScheduleInfo& info = all[static_cast<size_t>(draw(0, int(all.size()) - 1))];
    const int P = draw(1, most_ranks);
    const NamedSize made{
        .name = info.name,
        .size = {
            .ranks = P,
            .microbatches = draw(1, std::max(2, most_rounds * P)),
            .stages_per_rank = draw(
                info.fewest_stages, info.most_stages == 0 ? 4 : info.most_stages)}};
    if (refusal([&] { made.make(); }).empty())
      return made;
  }
}

/// Every action of every stage takes some whole time up to `most`.
inline Costs any_costs(std::mt19937& random, int stages, int most) {
  std::uniform_int_distribution<int> cost(0, most);
  Costs costs;
  costs.stages.clear();
  for (int i = 0; i < stages; ++i)
    costs.stages.push_back(
        {.forward = double(cost(random)),
         .input_grad = double(cost(random)),
         .weight_grad = double(cost(random)),
         .backward = double(cost(random))});
  return costs;
}

}  // namespace trireme::sched
