#include "trireme/pipe/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "trireme/comm/gather_rows.h"
#include "trireme/core/error.h"
#include "trireme/pipe/program.h"
#include "trireme/sched/draw.h"
#include "trireme/sched/index.h"
#include "trireme/sched/prove.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;
using sched::index;

constexpr double kNanosecond = 1e-9;

/// An action as numbers, for the way between ranks.
constexpr size_t kRow = 12;
std::array<int64_t, kRow> to_row(const ActionTime& one) {
  const Action& a = one.action;
  const Action other = a.kind() == ActionKind::Overlap ? a.backward_half() : a;
  return {
      static_cast<int64_t>(a.kind()),
      a.stage(),
      a.microbatch(),
      other.stage(),
      other.microbatch(),
      one.start_ns,
      one.end_ns,
      one.live_bytes,
      one.forward.start_ns,
      one.forward.end_ns,
      one.backward.start_ns,
      one.backward.end_ns};
}

ActionTime from_row(const int64_t* row) {
  const auto kind = static_cast<ActionKind>(row[0]);
  const auto number = [row](size_t i) { return static_cast<int>(row[i]); };
  const Action action =
      kind == ActionKind::Overlap
          ? Action::overlap({number(1), number(2)}, {number(3), number(4)})
          : Action(kind, number(1), number(2));
  return {action, row[5], row[6], row[7], {row[8], row[9]}, {row[10], row[11]}};
}

double seconds(int64_t ns, int64_t start) {
  return static_cast<double>(ns - start) * kNanosecond;
}

/// The action, or its halves if it is known when they ran.
void add_timed(std::vector<sched::Timed>& list, const ActionTime& one, int64_t start) {
  const auto add = [&](const Action& action, int64_t from, int64_t to) {
    list.push_back(
        {.action = action, .start = seconds(from, start), .end = seconds(to, start)});
  };
  if (!one.has_halves())
    return add(one.action, one.start_ns, one.end_ns);
  add(one.action.forward_half(), one.forward.start_ns, one.forward.end_ns);
  add(one.action.backward_half(), one.backward.start_ns, one.backward.end_ns);
}

struct Span {
  double first = std::numeric_limits<double>::infinity();
  double last = -std::numeric_limits<double>::infinity();
};

}  // namespace

sched::Simulation measure(
    const sched::Schedule& schedule, const std::vector<Timeline>& timelines) {
  sched::Simulation result;
  int64_t start = std::numeric_limits<int64_t>::max();
  for (const Timeline& timeline : timelines)
    for (const ActionTime& one : timeline.actions)
      if (sched::is_compute(one.action.kind()))
        start = std::min(start, one.start_ns);
  double longest_span = 0;
  for (size_t rank = 0; rank < timelines.size(); ++rank) {
    Span span;
    double busy = 0;
    auto& timed = result.timeline.emplace_back();
    for (const ActionTime& one : timelines[rank].actions) {
      if (!sched::is_compute(one.action.kind()))
        continue;
      const double from = seconds(one.start_ns, start);
      const double to = seconds(one.end_ns, start);
      add_timed(timed, one, start);
      busy += to - from;
      span = {std::min(span.first, from), std::max(span.last, to)};
    }
    result.busy.push_back(busy);
    result.makespan = std::max(result.makespan, span.last);
    longest_span = std::max(longest_span, span.last - span.first);
    result.peak_activations.push_back(sched::peak_activations(schedule.actions[rank]));
  }
  result.ideal = *std::max_element(result.busy.begin(), result.busy.end());
  result.wall_bubble = result.makespan - result.ideal;
  result.span_bubble = longest_span - result.ideal;
  for (const double busy : result.busy)
    result.idle.push_back(result.makespan - busy);
  return result;
}

Timeline shifted(Timeline timeline, const comm::ClockOffset& offset) {
  timeline.start_ns += offset.ns;
  timeline.end_ns += offset.ns;
  for (ActionTime& one : timeline.actions) {
    one.start_ns += offset.ns;
    one.end_ns += offset.ns;
    for (Interval* half : {&one.forward, &one.backward})
      if (half->end_ns != 0) {
        half->start_ns += offset.ns;
        half->end_ns += offset.ns;
      }
  }
  return timeline;
}

void StepReport::predict(const sched::Costs& costs) {
  predicted = sched::simulate(schedule, {.costs = costs, .details = true});
  // What was measured is without the weights, which were there before, but with the
  // gradients, which take as much.
  predicted_peak_bytes = predicted->peak_bytes;
  if (has_backward(schedule))
    return;
  for (int stage = 0; stage < schedule.stages(); ++stage)
    predicted_peak_bytes[index(schedule.owner(stage))] -=
        costs.stage(stage).weight_bytes;
}

std::vector<RankRecord> gather_records(
    const comm::Group& group, const RankRecord& mine) {
  std::vector<int64_t> numbers{
      mine.peak_bytes, mine.timeline.start_ns, mine.timeline.end_ns};
  for (const ActionTime& one : mine.timeline.actions)
    for (const int64_t number : to_row(one))
      numbers.push_back(number);
  std::vector<RankRecord> records;
  for (const std::vector<int64_t>& row : comm::gather_rows(group, numbers)) {
    RankRecord record{
        .timeline = {.start_ns = row[1], .end_ns = row[2]}, .peak_bytes = row[0]};
    for (size_t i = 3; i < row.size(); i += kRow)
      record.timeline.actions.push_back(from_row(row.data() + i));
    records.push_back(std::move(record));
  }
  return records;
}

namespace {

/// "12.3 ms", or "-" for a time that is not known.
std::string milliseconds(std::optional<double> seconds) {
  char buffer[32];
  if (!seconds)
    return "-";
  std::snprintf(buffer, sizeof(buffer), "%.2f ms", *seconds * 1e3);
  return buffer;
}

std::string share(double part, double whole) {
  char buffer[32];
  std::snprintf(
      buffer, sizeof(buffer), "%.1f %%", whole > 0 ? 100 * part / whole : 0.0);
  return buffer;
}

std::string padded(std::string cell) {
  constexpr size_t kWidth = 14;
  if (cell.size() < kWidth)
    cell.insert(0, kWidth - cell.size(), ' ');
  return cell;
}

constexpr size_t kName = 12;

void add_row(
    std::string& table,
    const std::string& name,
    const std::vector<std::string>& cells) {
  table += name;
  table.append(kName - std::min(kName, name.size()), ' ');
  for (const std::string& cell : cells)
    table += padded(cell);
  table += "\n";
}

}  // namespace

std::string to_text(const StepReport& report) {
  const sched::Simulation& is = report.measured;
  const auto planned = [&](double sched::Simulation::*value) {
    return report.predicted ? std::optional((*report.predicted).*value) : std::nullopt;
  };
  std::string table;
  add_row(table, report.schedule.name, {"measured", "predicted"});
  const auto times = [&](const char* name, double sched::Simulation::*value) {
    add_row(table, name, {milliseconds(is.*value), milliseconds(planned(value))});
  };
  times("step", &sched::Simulation::makespan);
  times("ideal", &sched::Simulation::ideal);
  times("wall bubble", &sched::Simulation::wall_bubble);
  times("span bubble", &sched::Simulation::span_bubble);
  add_row(
      table,
      "bubble share",
      {share(is.wall_bubble, is.makespan),
       report.predicted
           ? share(report.predicted->wall_bubble, report.predicted->makespan)
           : "-"});
  add_row(table, "", {"busy", "idle", "peak bytes", "predicted"});
  for (size_t rank = 0; rank < is.busy.size(); ++rank)
    add_row(
        table,
        text("rank ", rank),
        {milliseconds(is.busy[rank]),
         milliseconds(is.idle[rank]),
         text(report.peak_bytes[rank]),
         rank < report.predicted_peak_bytes.size()
             ? text(std::llround(report.predicted_peak_bytes[rank]))
             : "-"});
  for (const StageSplits& stage : report.splits)
    if (stage.total() > 0)
      table += to_text(stage) + "\n";
  return table;
}

std::string to_svg(const StepReport& report) {
  return sched::draw_svg(report.schedule, report.measured);
}

}  // namespace trireme::pipe
