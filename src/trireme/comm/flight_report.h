// What the records of all ranks say together: who left the common path, and where.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/flight_file.h"

namespace trireme::comm {

/// The ranks' records, compared. Each entry is a sentence without its full stop.
struct FlightReport {
  /// Why the world stopped, which records are missing, which rank had died.
  std::vector<std::string> notes;
  /// Where the ranks differ, what did not finish, who waits for whom; empty if they
  /// agree.
  std::vector<std::string> findings;
};

/// Compares the records of one world, as load_flight() gives them. A record holds a
/// rank's last calls only: that an older one is not there means nothing.
///
///     std::cout << to_text(report_flight(load_flight(folder)));
FlightReport report_flight(std::span<const FlightFile> records);

/// The report for people: one line a sentence, and one that says so if the ranks agree.
std::string to_text(const FlightReport& report);

}  // namespace trireme::comm
