#include "trireme/cli/torch_ranks.h"

#include <exception>
#include <iostream>
#include <sys/prctl.h>

#include <ATen/Parallel.h>

#include "trireme/comm/init.h"
#include "trireme/core/environment.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/machine.h"
#include "trireme/launch/launcher.h"
#include "trireme/memory/caching_allocator.h"

namespace trireme::cli {
namespace {

// A step and a checkpoint must fit between SIGTERM and SIGKILL.
constexpr std::chrono::minutes kGrace{2};

int run_rank(const RankBody& body) {
  memory::install_caching_allocator();
  at::set_num_threads(
      rank_threads(Environment::of_process(), available_cores(), launcher_cores()));
  try {
    const comm::Group world = comm::init();
    int code = 0;
    comm::telling_peers(world, [&] { code = body(world); });
    std::cout.flush();
    return code;
  } catch (const std::exception& error) {
    std::cout.flush();
    std::cerr << "trireme: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace

bool is_rank() {
  return read_launch_env(Environment::of_process()).launcher != Launcher::None;
}

int run_ranks(int ranks, const RankBody& body) {
  return ranks == 1 || is_rank() ? run_rank(body) : fork_ranks(ranks, body);
}

int fork_ranks(int ranks, const RankBody& body) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return launch::spawn(
             {.ranks = ranks, .grace = kGrace}, [&](int) { return run_rank(body); })
      .exit_code;
}

}  // namespace trireme::cli
