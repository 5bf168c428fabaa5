#include "trireme/bench/peer.h"

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::bench {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> peer_folders(const Environment& env, const fs::path& program) {
  if (const auto wish = env.find("TRIREME_PEERS"); wish && !wish->empty())
    return {fs::path(*wish)};
  const fs::path prefix = program.parent_path().parent_path();
  std::vector<fs::path> folders{prefix / "share" / "trireme" / "peers"};
  // Only a build folder looks outside of itself: build/release/bin -> bench/peers.
  if (std::error_code none; fs::exists(prefix / "CMakeCache.txt", none))
    folders.push_back(prefix.parent_path().parent_path() / "bench" / "peers");
  return folders;
}

}  // namespace

PeerCommand find_python(const Environment& env) {
  const auto python = env.find("TRIREME_PYTHON");
  if (!python || python->empty())
    return {.command = {}, .missing = text("TRIREME_PYTHON is not set; ", kPeerRemedy)};
  return {.command = {std::string(*python)}, .missing = {}};
}

PeerCommand find_peer(
    const std::string& bench, const Environment& env, const fs::path& program) {
  PeerCommand peer = find_python(env);
  if (!peer.missing.empty())
    return peer;
  const std::vector<fs::path> folders = peer_folders(env, program);
  for (const fs::path& folder : folders) {
    const fs::path script = folder / text(bench, ".py");
    if (std::error_code none; fs::exists(script, none)) {
      peer.command.push_back(script.string());
      return peer;
    }
  }
  return {
      .command = {},
      .missing = text(
          "there is no ",
          bench,
          ".py in ",
          in_quotes(folders.back().string()),
          "; set TRIREME_PEERS to the source tree's bench/peers")};
}

std::string peer_failed(const std::string& what) {
  return text(what, "\nTo get the peer, ", kPeerRemedy, ".");
}

fs::path this_program() {
  return fs::read_symlink("/proc/self/exe");
}

}  // namespace trireme::bench
