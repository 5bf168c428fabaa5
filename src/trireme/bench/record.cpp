#include "trireme/bench/record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

// A change below this is not worth a look, however quiet the machine was.
constexpr double kLeastRegression = 1.1;

double at_fraction(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = place - static_cast<double>(below);
  return sorted[below] + weight * (sorted[above] - sorted[below]);
}

// About three digits that count, without an exponent: 0.42, 41.7, 4170.
std::string short_number(double value) {
  std::ostringstream out;
  const double size = std::abs(value);
  out << std::fixed << std::setprecision(size >= 100 ? 0 : size >= 10 ? 1 : 2) << value;
  return out.str();
}

// A figure in the unit that suits it, as "8.21 ms".
struct Unit {
  double size;
  std::string name;
};
Unit unit_for(double value, const std::string& unit) {
  if (unit == "KiB")
    return value >= 1024 ? Unit{1024, "MiB"} : Unit{1, "KiB"};
  if (unit != "us")
    return {1, unit};
  if (value >= 1e6)
    return {1e6, "s"};
  if (value >= 1e3)
    return {1e3, "ms"};
  return {1, "us"};
}

// "8.21 ms (8.03-8.60)", or a dash.
std::string figure_text(
    double value,
    const Samples& samples,
    const std::string& in,
    const char* mark = "") {
  if (samples.rounds.empty())
    return "-";
  const Unit unit = unit_for(value, in);
  const Quartiles spread = quartiles(samples.rounds);
  return text(
      short_number(value / unit.size),
      " ",
      unit.name,
      mark,
      " (",
      short_number(spread.low / unit.size),
      "-",
      short_number(spread.high / unit.size),
      ")");
}

std::string times_text(std::optional<double> ratio) {
  return ratio ? text(short_number(*ratio), " x") : "-";
}

std::string goal_text(const Record& record) {
  if (record.goal)
    return times_text(record.goal);
  if (!record.limit)
    return "-";
  const Unit unit = unit_for(*record.limit, record.unit);
  return text("<= ", short_number(*record.limit / unit.size), " ", unit.name);
}

std::string verdict_text(const Record& record) {
  switch (judge(record)) {
    case Verdict::Ok:
      return "ok";
    case Verdict::Short:
      return record.left_out.empty() ? "SHORT" : "SHORT (left out)";
    case Verdict::NoPeer:
      break;
  }
  return "no peer";
}

std::string shortfall(const Record& record) {
  if (!record.left_out.empty())
    return text(
        record.name, ": expected it to be measured, got nothing: ", record.left_out);
  if (judge(record) == Verdict::NoPeer)
    return text(record.name, ": expected a peer to compare with, got none");
  if (record.limit && record.our_value() > *record.limit)
    return text(
        record.name,
        ": expected at most ",
        short_number(*record.limit),
        " ",
        record.unit,
        ", got ",
        short_number(record.our_value()),
        " ",
        record.unit);
  return text(
      record.name,
      ": expected ",
      times_text(record.goal),
      ", got ",
      times_text(record.ratio()));
}

}  // namespace

Quartiles quartiles(std::vector<double> values) {
  if (values.empty())
    return {};
  std::sort(values.begin(), values.end());
  return {
      .low = at_fraction(values, 0.25),
      .median = at_fraction(values, 0.5),
      .high = at_fraction(values, 0.75)};
}

void Samples::add_round(const std::vector<double>& times) {
  if (times.empty())
    return;
  rounds.push_back(quartiles(times).median);
  raw.insert(raw.end(), times.begin(), times.end());
}

void Samples::finish() {
  if (raw.size() <= kMostRaw)
    return;
  std::vector<double> kept;
  for (size_t i = 0; i < kMostRaw; ++i)
    kept.push_back(raw[i * raw.size() / kMostRaw]);
  raw = std::move(kept);
}

double Record::our_value() const {
  if (limit && !ours.rounds.empty())
    return *std::max_element(ours.rounds.begin(), ours.rounds.end());
  return quartiles(ours.rounds).median;
}

std::optional<double> Record::peer_value() const {
  if (peer.rounds.empty())
    return std::nullopt;
  return quartiles(peer.rounds).median;
}

std::optional<double> Record::ratio() const {
  const auto theirs = peer_value();
  if (!theirs || *theirs <= 0 || our_value() <= 0)
    return std::nullopt;
  return more_is_better() ? our_value() / *theirs : *theirs / our_value();
}

Verdict judge(const Record& record) {
  if (record.ours.rounds.empty())
    return Verdict::Short;
  if (record.limit && record.our_value() > *record.limit)
    return Verdict::Short;
  if (!record.goal)
    return Verdict::Ok;
  const auto ratio = record.ratio();
  if (!ratio)
    return Verdict::NoPeer;
  return *ratio >= *record.goal ? Verdict::Ok : Verdict::Short;
}

std::vector<std::string> shortfalls(const std::vector<Record>& records) {
  std::vector<std::string> lines;
  for (const Record& record : records)
    if (judge(record) != Verdict::Ok)
      lines.push_back(shortfall(record));
  return lines;
}

std::vector<std::string> regressions(
    const std::vector<Record>& before, const std::vector<Record>& now) {
  std::vector<std::string> lines;
  for (const Record& record : now) {
    const auto old =
        std::find_if(before.begin(), before.end(), [&](const Record& other) {
          return other.bench == record.bench && other.name == record.name;
        });
    if (old == before.end() || old->ours.rounds.empty() || record.ours.rounds.empty())
      continue;
    const Quartiles was = quartiles(old->ours.rounds);
    const Quartiles is = quartiles(record.ours.rounds);
    const bool slower =
        record.more_is_better()
            ? is.high < was.low && is.median * kLeastRegression < was.median
            : is.low > was.high && is.median > was.median * kLeastRegression;
    if (slower)
      lines.push_back(text(
          record.name,
          ": was ",
          figure_text(was.median, old->ours, old->unit),
          ", is ",
          figure_text(is.median, record.ours, record.unit)));
  }
  return lines;
}

std::string to_table(const std::vector<Record>& records) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows{{"case", "ours", "peer", "ratio", "goal", ""}};
  for (const Record& record : records)
    rows.push_back(
        {record.name,
         figure_text(
             record.our_value(),
             record.ours,
             record.unit,
             record.limit ? " worst" : ""),
         figure_text(record.peer_value().value_or(0), record.peer, record.unit),
         times_text(record.ratio()),
         goal_text(record),
         verdict_text(record)});
  std::array<size_t, 6> widths{};
  for (const Row& row : rows)
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  std::ostringstream out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      line += std::string(widths[column] - row[column].size() + 2, ' ');
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }
  return out.str();
}

}  // namespace trireme::bench
