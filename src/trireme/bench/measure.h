// Ours and the peer in turn: what every benchmark does with its cases.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trireme/bench/record.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/machine.h"

namespace trireme::bench {

/// What the user asked of a benchmark.
struct MeasureOptions {
  bool quick = false;
  /// Whose cases, where a benchmark has them by backend; empty: those of the first.
  std::string backend{};
  /// Only cases whose name contains this.
  std::string only{};
  /// 0: as many as suit.
  int rounds = 0;
  /// The program that has `bench --worker`: this one, or in tests another.
  std::filesystem::path program{};
};

/// What came out of it.
struct BenchReport {
  std::vector<Record> records;
  /// Why cases are without their peer; empty if none is.
  std::string no_peer;
};

/// How long to go on with one case.
struct RoundPlan {
  int rounds = 20;
  /// On a slow machine a case stops here, but never before its third round.
  std::chrono::milliseconds budget = std::chrono::seconds(12);
};
RoundPlan plan_rounds(const MeasureOptions& options);

/// Measures one round and gives its single times in microseconds; none: there was
/// nothing to measure.
using Round = std::function<std::vector<double>()>;

/// The cases whose name, as `name_of` gives it, contains `only`; InvalidArgument lists
/// all names if there is none.
template <class Case, class NameOf>
std::vector<Case> choose_cases(
    std::vector<Case> cases, const std::string& only, const NameOf& name_of) {
  std::vector<Case> chosen;
  std::string names;
  for (Case& one : cases) {
    names += text("\n  ", name_of(one));
    if (name_of(one).find(only) != std::string::npos)
      chosen.push_back(std::move(one));
  }
  if (chosen.empty())
    throw InvalidArgument(text(
        "[cli] expected --case to be part of a case's name, got ",
        in_quotes(only),
        "; the cases are:",
        names));
  return chosen;
}

/// Runs rounds, which are told their number, as long as the plan says.
void repeat_rounds(const RoundPlan& plan, const std::function<void(int)>& round);

/// Lets the two sides take turns, and who goes first too. The first turn of each only
/// warms up. A side without a function is left out.
void measure_in_turn(
    Record& record, const Round& ours, const Round& peer, RoundPlan plan);

/// Says on stderr which case is next, for those who wait.
void show_case(
    const std::string& bench, size_t number, size_t count, const std::string& name);
/// Says on stderr why a case is not measured.
void show_left_out(
    const std::string& bench, const std::string& name, const std::string& why);

/// A case, with what is asked of it and without figures.
template <class Case>
Record blank_record(const std::string& bench, const Case& one) {
  return {
      .bench = bench,
      .name = one.name,
      .limit = one.limit,
      .goal = one.goal,
      .unit = one.unit};
}

/// The record of a case that cannot be measured here, which no check lets pass; says so
/// on stderr.
template <class Case>
Record leave_out(const std::string& bench, const Case& one, const std::string& why) {
  show_left_out(bench, one.name, why);
  Record record = blank_record(bench, one);
  record.left_out = why;
  return record;
}

/// The same as measure_in_turn() for a case that says what `measure` shall do on either
/// side, and what is asked of it.
template <class Case, class Measure>
Record measure_sides(
    const std::string& bench, const Case& one, const Measure& measure, RoundPlan plan) {
  Record record = blank_record(bench, one);
  Round peer;
  if (one.peer)
    peer = [&] { return measure(*one.peer); };
  measure_in_turn(
      record, [&] { return measure(one.ours); }, peer, plan);
  return record;
}

/// The record that `measure` makes of each case, with the machine and its load.
template <class Case, class Measure>
BenchReport measure_cases(
    const std::string& bench, const std::vector<Case>& cases, const Measure& measure) {
  const std::string machine = to_string(describe_machine());
  const double load = load_average();
  BenchReport report;
  for (size_t i = 0; i < cases.size(); ++i) {
    show_case(bench, i + 1, cases.size(), cases[i].name);
    report.records.push_back(measure(cases[i]));
    report.records.back().machine = machine;
    report.records.back().load = load;
  }
  return report;
}

}  // namespace trireme::bench
