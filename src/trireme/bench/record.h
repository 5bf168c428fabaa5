// What a benchmark measured, and what follows from it: figures, verdicts, the table.
// Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace trireme::bench {

/// The middle of `values` and the bounds of its middle half, interpolated between
/// neighbours; all 0 for no values.
struct Quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};
Quartiles quartiles(std::vector<double> values);

/// The figures of one side, in the record's unit. A round is many repetitions without a
/// break; its median is one data point, so that one disturbed round weighs no more than
/// any other.
struct Samples {
  std::vector<double> rounds;
  /// Single times, evenly thinned to kMostRaw: for those who want to look closer.
  std::vector<double> raw;

  static constexpr size_t kMostRaw = 200;
  void add_round(const std::vector<double>& times);
  /// Thins `raw`; to be called after the last round.
  void finish();
};

/// One case of a benchmark.
///
///     Record record{.bench = "comm", .name = "all_reduce 4 B", .goal = 15};
///     record.ours.add_round(times);
///     record.peer.add_round(peer_times);
///     record.ratio();   // above 1: ours is faster
struct Record {
  std::string bench;
  std::string name;
  Samples ours;
  /// What ours is compared with; empty where there is none.
  Samples peer;
  /// Why it could not be measured here; empty if it could.
  std::string left_out = {};
  /// The most that ours may take, by its slowest round, in `unit`.
  std::optional<double> limit;
  /// The least ratio that is asked for.
  std::optional<double> goal;
  /// "us", "KiB" for memory, "tokens/s", of which more is better, or what the table
  /// shows as it is: "%" for a share, "x", "calls".
  std::string unit = "us";
  std::string machine;
  double load = 0;

  /// The median over the rounds; the slowest round where there is a limit.
  double our_value() const;
  std::optional<double> peer_value() const;
  bool more_is_better() const { return unit == "tokens/s"; }
  /// Peer's value over ours, or ours over the peer's where more is better: how many
  /// times as fast we are.
  std::optional<double> ratio() const;
};

/// Ok: as asked. Short: not. NoPeer: it cannot be told.
enum class Verdict { Ok, Short, NoPeer };
Verdict judge(const Record& record);

/// A sentence for each record that is not Ok.
std::vector<std::string> shortfalls(const std::vector<Record>& records);

/// A sentence for each case of both runs that has become slower beyond the spread: by
/// more than a tenth, and so that the middle halves of the rounds no longer overlap.
std::vector<std::string> regressions(
    const std::vector<Record>& before, const std::vector<Record>& now);

/// The records for people: case, ours, peer (median and quartiles), ratio, goal,
/// verdict.
std::string to_table(const std::vector<Record>& records);

}  // namespace trireme::bench
