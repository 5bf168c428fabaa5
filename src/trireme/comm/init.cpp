#include "trireme/comm/init.h"

#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>

#include "trireme/comm/backend.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/core/machine.h"

namespace trireme::comm {
namespace {

// A rank that has closed its group before it failed has nobody left to tell.
void tell_others(const Group& group, const std::string& why) {
  try {
    if (group)
      group.abort(why);
  } catch (const InvalidArgument&) {
  }
}

// One rank of a world of threads: joins, runs, and tells the others if it fails.
std::exception_ptr run_rank(
    int rank,
    int ranks,
    const JoinWorld& join,
    const std::function<void(const Group&)>& body,
    const LocalOptions& options) {
  set_log_rank(rank, ranks);
  at::set_num_threads(options.threads);  // each thread has its own number
  Group group;
  try {
    group = Group(
        join(rank, Deadline::after(options.timeout)), {.timeout = options.timeout});
    telling_peers(group, [&] { body(group); });
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

bool is_peer_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

Group init(const InitOptions& options) {
  const Environment variables = Environment::of_process();
  InitOptions filled = options;
  if (filled.backend.empty() && variables.has("TRIREME_BACKEND"))
    filled.backend = variables.string("TRIREME_BACKEND");
  if (filled.timeout.count() <= 0)
    filled.timeout = read_timeout(variables);
  return init(read_launch_env(variables), filled);
}

Group init(const LaunchEnv& env, const InitOptions& options) {
  const auto timeout =
      options.timeout.count() > 0 ? options.timeout : GroupOptions().timeout;
  set_log_rank(env.rank, env.world_size);
  const BackendContext context{.env = env, .deadline = Deadline::after(timeout)};
  return Group(
      start_backend(
          options.backend.empty() ? pick_backend(env) : options.backend, context),
      {.timeout = timeout});
}

void telling_peers(const Group& world, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    tell_others(world, error.what());
    throw;
  } catch (...) {
    tell_others(world, "something that is not a std::exception was thrown");
    throw;
  }
}

void run_threads(
    int ranks,
    const JoinWorld& join,
    const std::function<void(const Group&)>& body,
    const LocalOptions& given) {
  if (ranks < 1)
    throw InvalidArgument(text(
        "[comm] expected at least one rank, got ", ranks, "; give a number above 0"));
  // The ranks share what this thread had for itself.
  const int threads_before = at::get_num_threads();
  LocalOptions options = given;
  if (options.threads <= 0)
    options.threads = threads_per_rank(threads_before, ranks);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  try {
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        errors[static_cast<size_t>(rank)] = run_rank(rank, ranks, join, body, options);
      });
  } catch (const std::system_error& error) {
    // Those that run give up when the missing ones do not come.
    errors[threads.size()] = std::make_exception_ptr(InvalidArgument(text(
        "[comm] expected to start ",
        ranks,
        " threads, got ",
        threads.size(),
        " and then: ",
        error.what())));
  }
  for (std::thread& thread : threads)
    thread.join();
  at::set_num_threads(threads_before);  // also what later threads begin with
  // The rank where the trouble began says more than those that it took along.
  for (const bool peers_too : {false, true})
    for (const std::exception_ptr& error : errors)
      if (error && (peers_too || !is_peer_error(error)))
        std::rethrow_exception(error);
}

void run_local(
    int ranks,
    const std::function<void(const Group&)>& body,
    const LocalOptions& options) {
  const LocalWorld world(ranks);
  run_threads(
      ranks,
      [&world](int rank, const Deadline& deadline) {
        return world.join(rank, deadline);
      },
      body,
      options);
}

}  // namespace trireme::comm
