// Launchers of other hosts, started from here by ssh or another such command.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/core/environment.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/launch/console.h"
#include "trireme/launch/options.h"
#include "trireme/launch/rank_process.h"
#include "trireme/launch/relay.h"

namespace trireme::launch {

/// A word as a shell takes it: it stays one, whatever is in it.
std::string shell_word(std::string_view word);

/// Variables as lines for a launcher's stdin, where nobody sees them in `ps`; an empty
/// line ends them. Those whose values have line breaks are left out.
std::string variable_block(const Environment::Variables& variables);
/// Reads such a block from a descriptor and sets the variables for this process; takes
/// nothing of what follows. InvalidArgument if it is cut short, or anything else.
void set_variables_from(int fd);

/// The variables that other nodes get: TRIREME_…, OMP_… and GLIBC_TUNABLES, with
/// `job_key` in place of all that says how connections are protected, if it is not
/// empty.
Environment::Variables shared_variables(
    const Environment& env, const std::string& job_key);

/// What was started; it is ended with this object.
class Remotes {
 public:
  /// Starts `shell` HOST COMMAND for each node, in a shell there that goes to the same
  /// folder first. `block` comes to its stdin. Error if there can be no more processes.
  Remotes(
      const std::vector<RemoteNode>& nodes,
      const std::vector<std::string>& shell,
      const std::string& block,
      const ProcessState& state);
  ~Remotes();
  Remotes(const Remotes&) = delete;
  Remotes& operator=(const Remotes&) = delete;

  /// To wait at.
  std::vector<int> fds() const;
  /// Passes on what they have printed, each line with the host's name. Says how one
  /// has ended; empty if none has since the last call.
  std::string attend();
  /// Waits until all have ended, at most that long.
  void finish(const Deadline& deadline);

 private:
  struct Remote {
    std::string host;
    pid_t pid = -1;
    FileDescriptor end;
  };
  void start(
      const RemoteNode& node,
      const std::vector<std::string>& shell,
      const std::string& block,
      const ProcessState& state);
  void reap(Remote& remote, std::string& trouble, int number);
  bool running() const;

  Console err_;
  Relay relay_;
  std::vector<Remote> remotes_;
};

}  // namespace trireme::launch
