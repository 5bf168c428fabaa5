// What every backend must do, as one suite. A new backend adds a registration, not
// tests.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "trireme/testing/world.h"

namespace trireme::testing {

/// A backend to try: runs a body on every rank of a world of its kind.
struct ConformanceBackend {
  /// Name of the gtest suite. Its ending gives the label: Ranks for threads, Procs for
  /// processes.
  std::string suite;
  std::function<void(int ranks, const RankBody& body)> run;
  std::vector<int> sizes = {1, 2, 3, 4, 7};
  /// Why the cases of a failing rank do not apply, for a backend whose world ends with
  /// its first failure; empty: they do. They then only print this.
  std::string no_failures;
};

/// Registers every case for every size with gtest. Call it before main() runs the
/// tests:
///
///     static const bool registered = (register_conformance({
///         .suite = "ConformancePigeonProcs", .run = run_pigeons}), true);
void register_conformance(const ConformanceBackend& backend);

/// One case: what each rank does.
struct ConformanceCase {
  std::string name;
  void (*body)(const comm::Group& world);
  /// Whether a rank fails, leaves early or does not come, and the others go on.
  bool failure = false;
};
std::vector<ConformanceCase> reduction_cases();
std::vector<ConformanceCase> move_cases();
std::vector<ConformanceCase> group_cases();
std::vector<ConformanceCase> channel_cases();
std::vector<ConformanceCase> fault_cases();

}  // namespace trireme::testing
