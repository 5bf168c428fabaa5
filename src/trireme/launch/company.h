// The other nodes of a job, as the launcher of this one has to do with them.
#pragma once
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include "trireme/launch/leader.h"
#include "trireme/launch/member.h"
#include "trireme/launch/remotes.h"

namespace trireme::launch {

/// All that a launcher needs for a job over several nodes, found out before it forks.
struct CompanyPlan {
  /// With a run id.
  Options options;
  /// The run id that was asked for; empty if none was.
  std::string wanted_run_id;
  net::Security security;
  /// For launchers that are started from here; empty: they get what is set here.
  std::string job_key;
};

/// Joins the job, leads it if that is this node's part, and starts the nodes that it
/// was told to start. Driven by the launcher while it waits for its keeper. It has
/// threads, so the keeper must have been forked before.
class Company {
 public:
  /// `state` is what the launchers that are started from here must find.
  /// InvalidArgument where this node cannot lead as it was told to.
  Company(const CompanyPlan& plan, const ProcessState& state);
  ~Company();

  /// Adds what to poll for.
  void add_waits(std::vector<pollfd>& waits) const;
  std::optional<Rounds::Time> wake() const;
  /// Does what there is to do; what the keeper has to know goes to its socket.
  void attend(int keeper);
  /// The keeper says something to the others.
  void told(const Word& word);
  /// This node cannot go on.
  void leave(const std::string& why);
  /// The job has ended here, and nothing more is told: waits for what was started from
  /// here.
  void finish(std::chrono::milliseconds limit);

 private:
  void say_last_words();
  std::optional<Remotes> remotes_;
  std::unique_ptr<Leader> leader_;
  std::unique_ptr<Member> member_;
};

/// Whether an address is one of this machine.
bool is_own_address(const net::Address& address);

}  // namespace trireme::launch
