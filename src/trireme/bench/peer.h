// Where the peer is: the Python that has PyTorch, and the scripts that measure it.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trireme/core/environment.h"

namespace trireme::bench {

/// What to do about a Python that is missing or does not work.
inline constexpr const char* kPeerRemedy =
    "start the program through ./trireme, or set TRIREME_PYTHON to a Python that has "
    "PyTorch";

/// How to start a peer's worker, or why that cannot be done.
struct PeerCommand {
  std::vector<std::string> command;
  /// A sentence that says what is missing and how to get it; empty if nothing is.
  std::string missing;
};

/// The Python that has PyTorch: TRIREME_PYTHON, which `./trireme` sets. Whether it has
/// shows when it starts.
PeerCommand find_python(const Environment& env);

/// Looks for the peer of one benchmark: that Python, and a script. The script
/// `<bench>.py` lies in TRIREME_PEERS, else in the installed
/// `<prefix>/share/trireme/peers`, else, for a program in a build folder, in the source
/// tree's bench/peers.
PeerCommand find_peer(
    const std::string& bench,
    const Environment& env,
    const std::filesystem::path& program);

/// Why there is no peer after it has failed, and what to do.
std::string peer_failed(const std::string& what);

/// This program's own file.
std::filesystem::path this_program();

}  // namespace trireme::bench
