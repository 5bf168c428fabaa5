// Starts the ranks of a job, here and with launchers of other hosts, and waits for
// them: `trireme run` as a call.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trireme/launch/options.h"

namespace trireme::launch {

/// Runs a program as the ranks of a job and waits until all have ended. `command` is
/// the program (looked for in PATH if it has no slash) and its arguments.
///
///     launch::Outcome outcome = launch::spawn({.ranks = 4}, {"./train",
///     "--epochs=2"}); return outcome.exit_code;
///
/// Each rank finds the variables that torchrun sets. When one fails, the others get
/// SIGTERM and, after options.grace, SIGKILL; a report with the end of its stderr goes
/// to stderr. While this call waits, SIGINT, SIGTERM, SIGHUP and SIGQUIT that reach the
/// calling thread stop the job, and SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT go to the
/// ranks; so a program with threads should block them in its other threads. No rank,
/// nor any process that it has started, outlives the call or this process (but for one
/// that has called setsid(), if the keeper is killed, too).
/// With options.nodes the ranks of several such calls, one on each host, are one world;
/// all of them end with the code of the first rank that failed, or 1 if a node is lost.
/// InvalidArgument if an option is wrong or the program cannot be run.
Outcome spawn(const Options& options, const std::vector<std::string>& command);

/// The same with several programs as one job and one world: the ranks of parts[0] come
/// first, then those of parts[1] and so on. Each finds its part in ROLE_NAME, ROLE_RANK
/// and ROLE_WORLD_SIZE (read_launch_role), and reports name it: "rank 4 (server 0)".
/// All start again together. options.ranks is not looked at. InvalidArgument, before
/// anything is started, if one of the programs cannot be run, if two have one role, or
/// if a job of several nodes has several parts, or one with a role.
///
///     const std::vector<launch::Part> parts = {
///         {.ranks = 4, .command = {"./trainer"}}, {.ranks = 1, .command =
///         {"./server"}}};
///     launch::spawn({.max_restarts = 2}, parts);
Outcome spawn(const Options& options, std::span<const Part> parts);

/// The same with a function of this program: each rank is a fork of this process, and
/// exits with what the function returns, or 1 if it throws. Call it before the program
/// starts threads (OpenMP and libtorch do at their first large operation):
/// InvalidArgument otherwise, because a fork has none of them.
///
///     launch::spawn({.ranks = 2}, [](int rank) { return train(comm::init(), rank); });
Outcome spawn(const Options& options, const std::function<int(int rank)>& body);

}  // namespace trireme::launch
