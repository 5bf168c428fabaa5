#include "trireme/sched/csv.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/sched/action_text.h"

namespace trireme::sched {
namespace {

// A cell, and where it stands: line and column of the file, and which cell of the line;
// all counted from 1.
struct CsvCell {
  size_t line = 0;
  size_t column = 0;
  size_t number = 0;
  std::string_view content;
};

[[noreturn]] void refuse(
    const std::string& name, const CsvCell& cell, const std::string& what) {
  throw InvalidArgument(text(
      "[sched] ",
      escaped(name),
      ", line ",
      cell.line,
      ", column ",
      cell.column,
      " (cell ",
      cell.number,
      ", ",
      in_quotes(cell.content),
      "): ",
      what));
}

class CsvReader {
 public:
  CsvReader(std::string_view file, const std::string& name) : file_(file) {
    schedule_.name = name;
  }

  Schedule read() {
    while (!file_.empty()) {
      const size_t end = std::min(file_.find('\n'), file_.size());
      read_line(file_.substr(0, end));
      file_.remove_prefix(std::min(end + 1, file_.size()));
      ++cell_.line;
    }
    // A file ends with a line end; further blank lines are no ranks.
    while (!schedule_.actions.empty() && schedule_.actions.back().empty())
      schedule_.actions.pop_back();
    finish();
    return std::move(schedule_);
  }

 private:
  void read_line(std::string_view line) {
    auto& list = schedule_.actions.emplace_back();
    cell_.number = 1;
    size_t start = 0;
    while (start <= line.size()) {
      const size_t end = std::min(line.find(',', start), line.size());
      cell_.column = start + 1;
      cell_.content = line.substr(start, end - start);
      list.push_back(read_cell());
      start = end + 1;
      ++cell_.number;
    }
    if (list.size() == 1 && list[0].kind() == ActionKind::Bubble)
      list.clear();  // a rank with nothing to do
  }

  Action read_cell() {
    std::string_view& content = cell_.content;
    if (content.ends_with('\r'))
      content.remove_suffix(1);  // of a line's end
    if (content.size() >= 2 && content.front() == '"' && content.back() == '"') {
      content = content.substr(1, content.size() - 2);
      ++cell_.column;
    }
    const auto read = read_action(content);
    if (const auto* flaw = std::get_if<TextFlaw>(&read)) {
      cell_.column += flaw->column - 1;  // that of the file, and no other
      refuse(schedule_.name, cell_, flaw->what);
    }
    const Action action = std::get<Action>(read);
    for_each_half(action, [this](const Action& half) { note(half); });
    return action;
  }

  // Owners and counts; a stage has one rank.
  void note(const Action& action) {
    if (action.kind() == ActionKind::Bubble)
      return;
    if (!is_compute(action.kind()))
      schedule_.lowered = true;
    const auto stage = static_cast<size_t>(action.stage());
    const int rank = schedule_.ranks() - 1;
    auto& owners = schedule_.rank_of_stage;
    // A stage number beyond all cells of a file cannot be right, and would take memory.
    if (stage > kMostStages)
      refuse(
          schedule_.name,
          cell_,
          text(
              "expected stages up to ",
              kMostStages,
              ", got ",
              stage,
              "; correct its number"));
    if (stage >= owners.size())
      owners.resize(stage + 1, -1);
    if (owners[stage] < 0)
      owners[stage] = rank;
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
    if (owners[stage] != rank)
      refuse(
          schedule_.name,
          cell_,
          text(
              "expected stage ",
              stage,
              " on rank ",
              owners[stage],
              " (line ",
              owners[stage] + 1,
              ") alone, got it on rank ",
              rank,
              "; leave it to one of them"));
#endif
    schedule_.microbatches = std::max(schedule_.microbatches, action.microbatch() + 1);
  }

  void finish() const {
    if (schedule_.actions.empty())
      throw InvalidArgument(text(
          "[sched] ",
          escaped(schedule_.name),
          ": expected a row of actions for each rank, got an empty file; write one "
          "line a rank"));
    const auto& owners = schedule_.rank_of_stage;
    const auto missing = std::find(owners.begin(), owners.end(), -1);
    if (missing != owners.end())
      throw InvalidArgument(text(
          "[sched] ",
          escaped(schedule_.name),
          ": expected stages 0 to ",
          owners.size() - 1,
          ", got no action of stage ",
          missing - owners.begin(),
          "; number the stages without gaps"));
  }

  static constexpr size_t kMostStages = 1 << 22;

  std::string_view file_;
  Schedule schedule_;
  CsvCell cell_{.line = 1};
};

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string out;
  for (const auto& list : schedule.actions) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0)
        out += ',';
      append(out, list[i]);
    }
    out += '\n';
  }
  return out;
}

Schedule parse_csv(std::string_view file, const std::string& name) {
  return CsvReader(file, name).read();
}

}  // namespace trireme::sched
