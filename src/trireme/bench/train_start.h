// How long a training job takes from its command to the end of its first step.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "trireme/bench/train_worker.h"

namespace trireme::bench {

/// A job that both sides can start: a pipeline of `ranks` processes, and a text.
struct StartJob {
  TrainJob model;
  int ranks = 2;
  std::filesystem::path data;
};

/// What each side says at the end of its first step.
inline constexpr const char* kOurFirstStep = "step 1/1 ";
inline constexpr const char* kPeerFirstStep = "step 1 is done";

/// `trireme train` of the program beside trireme-torch; writes to `folder`.
std::vector<std::string> our_start_command(
    const std::filesystem::path& program,
    const StartJob& job,
    const std::filesystem::path& folder);
/// The same of bench/peers/train.py, whose ranks meet at a port.
std::vector<std::string> peer_start_command(
    const std::vector<std::string>& peer, const StartJob& job, int port);

/// Microseconds until the command has said `mark`; it is run to its end. Error with the
/// end of its output if it fails.
double time_until(const std::vector<std::string>& command, const std::string& mark);

}  // namespace trireme::bench
