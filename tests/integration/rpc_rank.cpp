// A worker that meets the others over rpc, for tests of `trireme run` with several
// programs: rpc_rank MARK. It has the role that the launcher gave its program. Those of
// the last rank, which serves, are called by all others, who print what came of it.
#include <iostream>

#include "trireme/core/environment.h"
#include "trireme/core/launch_env.h"
#include "trireme/rpc/agent.h"

namespace {

using namespace trireme;

rpc::FunctionTable functions() {
  rpc::FunctionTable table;
  table.add("role", [] { return rpc::this_call()->caller->role; });
  table.add("update", [](int by) { return by + 1; }, {.roles = {"trainer"}});
  return table;
}

// One line, which goes out whole.
void print(const std::string& line) {
  std::cout << line + "\n" << std::flush;
}

void call_all(const rpc::Agent& agent) {
  const rpc::Caller server = agent.to(agent.workers().back());
  const std::string who = agent.me().name + ": ";
  print(who + "the server has role " + server.worker().role);
  print(who + "called as " + server.call<std::string>("role"));
  try {
    print(text(who, "update gave ", server.call<int>("update", 2)));
  } catch (const InvalidArgument& error) {
    print(who + "refused: " + error.what());
  }
}

}  // namespace

int main() try {
  const int rank = read_launch_env(Environment::of_process()).rank;
  rpc::Agent agent({.name = text("worker", rank), .functions = functions()});
  if (agent.me().id + 1 < static_cast<int>(agent.workers().size()))
    call_all(agent);
  agent.shutdown({.leaks = rpc::Leaks::Refuse});
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
