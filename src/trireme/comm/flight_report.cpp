#include "trireme/comm/flight_report.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <tuple>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::comm {
namespace {

using RankCalls =
    std::map<int, std::vector<const FlightCall*>>;  // by rank, oldest first

// "rank 2", "ranks 0, 1 and 3", "ranks 0 to 6 and 9".
std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size(); ++i) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    if (last < i + 2)
      last = i;  // two neighbours are no range
    parts.push_back(last > i ? text(ranks[i], " to ", ranks[last]) : text(ranks[i]));
    i = last;
  }
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i)
    out += text(i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ", parts[i]);
  return out;
}

// Records of one stop are written within moments, and at most a deadline apart.
constexpr int64_t kLongAgoNs = int64_t{600} * 1000000000;

std::string group_name(uint32_t group) {
  std::ostringstream out;
  if (group == 0)
    out << "group world";
  else
    out << "group 0x" << std::hex << group;
  return out.str();
}

std::string call_name(uint32_t group, uint32_t sequence) {
  return text("call ", sequence, " of ", group_name(group));
}

std::string seconds(int64_t ns) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1)
      << static_cast<double>(std::max<int64_t>(ns, 0)) / 1e9 << " s";
  return out.str();
}

// renew() starts the count of a group again. All ranks pass it together, so whatever
// began before the last call of an older generation is of an older one too.
void keep_newest_generation(RankCalls& calls) {
  int64_t old = -1;
  for (const auto& [rank, own] : calls)
    for (size_t i = 1; i < own.size(); ++i)
      if (own[i]->sequence <= own[i - 1]->sequence)
        old = std::max(old, own[i - 1]->started_ns);
  for (auto& [rank, own] : calls)
    std::erase_if(
        own, [old](const FlightCall* call) { return call->started_ns <= old; });
}

class Comparison {
 public:
  explicit Comparison(std::span<const FlightFile> records) : records_(records) {
    for (const FlightFile& record : records) {
      end_ns_ = std::max(end_ns_, record.written_ns);
      for (const FlightCall& call : record.calls)
        end_ns_ = std::max({end_ns_, call.started_ns, call.ended_ns});
    }
  }

  FlightReport report() {
    note_reasons();
    note_records();
    for (auto& [group, calls] : collectives()) {
      keep_newest_generation(calls);
      compare_group(group, calls);
    }
    find_stuck_messages();
    return std::move(report_);
  }

 private:
  template <class... Parts>
  void note(const Parts&... parts) {
    report_.notes.push_back(text(parts...));
  }
  template <class... Parts>
  void find(const Parts&... parts) {
    report_.findings.push_back(text(parts...));
  }

  const FlightFile* record_of(int rank) const {
    for (const FlightFile& record : records_)
      if (record.rank == rank)
        return &record;
    return nullptr;
  }

  // Whether calls of the rank have been overwritten.
  static bool forgot(const FlightFile& record) {
    return !record.calls.empty() && record.calls.front().ticket > 1;
  }

  void note_reasons() {
    std::map<std::string, std::vector<int>> reasons;
    for (const FlightFile& record : records_)
      reasons[record.reason].push_back(record.rank);
    for (const auto& [reason, ranks] : reasons)
      note("recorded reason of ", rank_list(ranks), ": ", escaped(reason));
  }

  void note_records() {
    std::vector<int> missing;
    for (int rank = 0; !records_.empty() && rank < records_.front().size; ++rank)
      if (record_of(rank) == nullptr)
        missing.push_back(rank);
    if (!missing.empty())
      note("no record of ", rank_list(missing), " of ", records_.front().size);
    for (const FlightFile& record : records_)
      if (record.written_by != record.rank)
        note(
            "the record of rank ",
            record.rank,
            " was written by rank ",
            record.written_by,
            ": it had died, or was busy elsewhere");
    for (const FlightFile& record : records_)
      if (record.written_ns != 0 && end_ns_ - record.written_ns > kLongAgoNs)
        note(
            "the record of rank ",
            record.rank,
            " is ",
            seconds(end_ns_ - record.written_ns),
            " older than the newest: perhaps it is of an earlier job");
  }

  std::map<uint32_t, RankCalls> collectives() const {
    std::map<uint32_t, RankCalls> groups;
    for (const FlightFile& record : records_)
      for (const FlightCall& call : record.calls)
        if (call.kind == FlightKind::Collective)
          groups[call.group][record.rank].push_back(&call);
    // Every rank is in the world, also one that has made no call yet. Of other groups
    // only those are known to be members that have called.
    if (const auto world = groups.find(0); world != groups.end())
      for (const FlightFile& record : records_)
        if (!forgot(record))
          world->second[record.rank];
    return groups;
  }

  void compare_group(uint32_t group, const RankCalls& calls) {
    std::map<uint32_t, std::map<std::string, std::vector<int>>> by_sequence;
    for (const auto& [rank, own] : calls)
      for (const FlightCall* call : own)
        by_sequence[call->sequence][call->call].push_back(rank);
    for (const auto& [sequence, texts] : by_sequence)
      if (texts.size() > 1) {
        find_difference(group, sequence, texts);
        return;  // what comes after it follows from it
      }
    for (const auto& [rank, own] : calls)
      find_absent(group, rank, own, by_sequence);
    find_unfinished(group, calls);
  }

  void find_difference(
      uint32_t group,
      uint32_t sequence,
      const std::map<std::string, std::vector<int>>& texts) {
    using Side = std::pair<std::vector<int>, std::string>;
    std::vector<Side> sides;
    for (const auto& [call, ranks] : texts)
      sides.emplace_back(ranks, call);
    // The few first: they are likely those that went wrong.
    std::sort(sides.begin(), sides.end(), [](const Side& a, const Side& b) {
      return std::pair(a.first.size(), a.first) < std::pair(b.first.size(), b.first);
    });
    std::string out;
    for (const auto& [ranks, call] : sides)
      out +=
          text(out.empty() ? ": " : ", ", rank_list(ranks), " called ", escaped(call));
    find(call_name(group, sequence), out);
  }

  void find_unfinished(uint32_t group, const RankCalls& calls) {
    std::map<uint32_t, std::vector<int>> ranks;
    std::map<uint32_t, const FlightCall*> longest;
    for (const auto& [rank, own] : calls)
      for (const FlightCall* call : own)
        if (call->state != FlightState::Done) {
          ranks[call->sequence].push_back(rank);
          const FlightCall*& first = longest[call->sequence];
          if (first == nullptr || call->started_ns < first->started_ns)
            first = call;
        }
    for (const auto& [sequence, call] : longest)
      find(
          rank_list(ranks[sequence]),
          " did not finish ",
          call_name(group, sequence),
          " (",
          escaped(call->call),
          "), begun ",
          seconds(end_ns_ - call->started_ns),
          " before the end");
  }

  void find_absent(
      uint32_t group,
      int rank,
      const std::vector<const FlightCall*>& own,
      const std::map<uint32_t, std::map<std::string, std::vector<int>>>& by_sequence) {
    const uint32_t last = own.empty() ? 0 : own.back()->sequence;
    const auto next = by_sequence.upper_bound(last);
    // A rank that is stuck in its last call is no riddle: find_unfinished() has named
    // it.
    if (next == by_sequence.end() ||
        (!own.empty() && own.back()->state != FlightState::Done))
      return;
    find(
        "rank ",
        rank,
        " never came to ",
        call_name(group, next->first),
        " (",
        escaped(next->second.begin()->first),
        "); ",
        own.empty() ? "it has finished no call of this group"
                    : text(
                          "its last finished call is ",
                          last,
                          ", ",
                          seconds(end_ns_ - own.back()->ended_ns),
                          " before the end"));
  }

  // The last message of each channel, by (group, peer, tag), of one kind.
  using Channels = std::map<std::tuple<uint32_t, int, int>, const FlightCall*>;
  static Channels last_messages(const FlightFile& record, FlightKind kind) {
    Channels last;
    for (const FlightCall& call : record.calls)
      if (call.kind == kind)
        last[{call.group, call.peer, call.tag}] = &call;
    return last;
  }

  void find_stuck_messages() {
    for (const FlightFile& record : records_)
      for (const FlightKind kind : {FlightKind::Receive, FlightKind::Send})
        for (const auto& [key, call] : last_messages(record, kind))
          if (call->state != FlightState::Done)
            find_stuck(record, *call);
  }

  void find_stuck(const FlightFile& record, const FlightCall& call) {
    const bool receives = call.kind == FlightKind::Receive;
    find(
        "rank ",
        record.rank,
        receives ? " waits for message " : " cannot send message ",
        call.sequence,
        receives ? " from rank " : " to rank ",
        call.peer,
        " (tag ",
        call.tag,
        call.group == 0 ? "" : text(", ", group_name(call.group)),
        receives ? "" : text(", ", call.bytes, " bytes"),
        "); ",
        other_end(record.rank, call));
  }

  // How far the rank at the other end of the channel has come.
  std::string other_end(int rank, const FlightCall& call) const {
    const bool receives = call.kind == FlightKind::Receive;
    const FlightFile* peer = record_of(call.peer);
    if (peer == nullptr)
      return text("there is no record of rank ", call.peer);
    const Channels channels =
        last_messages(*peer, receives ? FlightKind::Send : FlightKind::Receive);
    const auto found = channels.find({call.group, rank, call.tag});
    const char* has = receives ? " has sent " : " has received ";
    if (found == channels.end())
      return text(
          "rank ",
          call.peer,
          has,
          "none",
          forgot(*peer) ? " among its last calls" : "");
    const FlightCall& last = *found->second;
    return text(
        "rank ",
        call.peer,
        has,
        last.state == FlightState::Done ? last.sequence : last.sequence - 1);
  }

  std::span<const FlightFile> records_;
  int64_t end_ns_ = 0;
  FlightReport report_;
};

}  // namespace

FlightReport report_flight(std::span<const FlightFile> records) {
  return Comparison(records).report();
}

std::string to_text(const FlightReport& report) {
  std::string out;
  for (const std::string& line : report.notes)
    out += line + "\n";
  for (const std::string& line : report.findings)
    out += line + "\n";
  if (report.findings.empty())
    out += "the records agree: the ranks made the same calls and finished them\n";
  return out;
}

}  // namespace trireme::comm
