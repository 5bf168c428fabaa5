// Flight records read back from files. They may come from anywhere, so nothing in them
// is believed before it is checked.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/flight_recorder.h"

namespace trireme::comm {

/// One call as its rank recorded it; see FlightEntry.
struct FlightCall {
  /// Counts all calls of the rank from 1.
  uint64_t ticket = 1;
  FlightKind kind = FlightKind::Collective;
  FlightState state = FlightState::Done;
  uint32_t group = 0;
  uint32_t sequence = 1;
  /// A collective in words: "all_reduce sum float32[1024]".
  std::string call;
  /// Of a message: its size, the rank at the other end (counted in the world), its tag.
  int64_t bytes = 0;
  int peer = -1;
  int tag = 0;
  int64_t started_ns = 0;
  /// 0 as long as it runs.
  int64_t ended_ns = 0;
};

/// The record of one rank.
struct FlightFile {
  int rank = 0;
  int size = 1;
  /// Another rank where this one had died, or did not come to write it.
  int written_by = 0;
  /// When, on the clock of the calls; 0 if the file does not say.
  int64_t written_ns = 0;
  /// Why the world stopped.
  std::string reason;
  /// In the order of their tickets, each ticket once.
  std::vector<FlightCall> calls;
};

/// The record in the text of a file. InvalidArgument names `file` and what is wrong
/// with it.
FlightFile parse_flight(std::string_view json, const std::string& file);

/// The records rank_N.json in `folder`, in the order of ranks. InvalidArgument if there
/// is none, if one of them is no record, or if they are not of one world.
///
///     for (const FlightFile& record : load_flight("/tmp/trireme-flight-0/job")) …
std::vector<FlightFile> load_flight(const std::filesystem::path& folder);

}  // namespace trireme::comm
