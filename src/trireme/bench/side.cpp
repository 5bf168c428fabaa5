#include "trireme/bench/side.h"

#include "trireme/bench/peer.h"

namespace trireme::bench {

RankSide::RankSide(
    std::string name, int ranks, std::vector<std::string> command, std::string missing)
    : name_(std::move(name)),
      ranks_(ranks),
      command_(std::move(command)),
      missing_(std::move(missing)) {}

Rows RankSide::ask(const std::string& line, std::chrono::milliseconds limit) {
  if (!team_)
    team_ = std::make_unique<WorkerTeam>(
        name_, rank_starts(command_, ranks_, side_variables()));
  return team_->ask(line, limit);
}

void RankSide::give_up(const std::string& why) {
  missing_ = peer_failed(why);
  team_.reset();
}

Environment::Variables side_variables() {
  Environment::Variables variables{
      {"OMP_NUM_THREADS", "1"}, {"TRIREME_BACKEND", "shm"}, {"TRIREME_FLIGHT_DIR", ""}};
  // Otherwise gloo asks for the address of the host's name, which not every host has.
  if (!Environment::of_process().has("GLOO_SOCKET_IFNAME"))
    variables["GLOO_SOCKET_IFNAME"] = "lo";
  return variables;
}

}  // namespace trireme::bench
