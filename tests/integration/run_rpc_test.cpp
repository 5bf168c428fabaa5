// `trireme run` with several programs that call each other: roles decide who may.
#include "run_case.h"

namespace trireme::launch {
namespace {

class RunRpcProcs : public RunCase {
 protected:
  void add_part(Words& all, const Words& options) const {
    if (all.size() > 2)
      all.emplace_back(":");
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", RPC_RANK, mark_.word()});
  }
};

TEST_F(RunRpcProcs, RolesOfTheLauncherDecideWhoMayCall) {
  Words words = {TRIREME_PROGRAM, "run"};
  add_part(words, {"-n", "2", "--role", "trainer"});
  add_part(words, {"-n", "1", "--role", "data loader-1.5"});
  add_part(words, {"-n", "1", "--role", "server"});
  Launched launched(words);
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  for (const int rank : {0, 1, 2}) {
    const std::string who = text("worker", rank, ": ");
    const std::string role = rank < 2 ? "trainer" : "data loader-1.5";
    EXPECT_TRUE(launched.says(who + "the server has role server\n"));
    EXPECT_TRUE(launched.says(who + "called as " + role + "\n"));
  }
  EXPECT_TRUE(launched.says("worker0: update gave 3\n")) << launched.out();
  EXPECT_TRUE(launched.says("worker1: update gave 3\n")) << launched.out();
  EXPECT_TRUE(launched.says(
      "worker2: refused: [rpc] expected a call of update on worker worker3 from a "
      "worker with role trainer, got one from role data loader-1.5; add the role to "
      "the function's list\n"))
      << launched.out();
}

}  // namespace
}  // namespace trireme::launch
