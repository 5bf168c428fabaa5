// The launcher's own process while a job runs: it passes signals to the keeper and
// waits for the outcome.
#pragma once
#include <string>
#include <sys/types.h>

#include "trireme/launch/options.h"
#include "trireme/launch/rank_process.h"

namespace trireme::launch {

/// While it lives, the signals that a launcher passes on reach the calling thread only
/// through fd(). Those that were ignored before stay so, as nohup wants it.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  int fd() const { return fd_; }
  /// What ranks have to find.
  const ProcessState& before() const { return before_; }

 private:
  ProcessState before_;
  int fd_ = -1;
};

class Company;

/// What connects a launcher with its keeper.
struct KeeperLink {
  pid_t keeper = -1;
  /// A socket of packets.
  int socket = -1;
  /// SignalScope::fd().
  int signals = -1;
  /// The other nodes of the job, if it has any.
  Company* company = nullptr;
};

/// Passes on signals, and words of other nodes, until the keeper has sent its outcome
/// and ended. If it dies without one, ends all that is left of the job here and throws
/// Error. Closes the socket.
Outcome await_outcome(const KeeperLink& link);

/// The keeper's side of it.
void send_outcome(int socket, const Outcome& outcome);
void send_error(int socket, const std::string& what);

}  // namespace trireme::launch
