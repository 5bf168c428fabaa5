#include "trireme/testing/rpc_world.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "trireme/net/file_store.h"
#include "trireme/net/memory_store.h"

namespace trireme::testing {
namespace {

void run_worker(
    const rpc::AgentOptions& options,
    const RpcBody& body,
    std::chrono::milliseconds timeout) {
  rpc::Agent agent(options);
  try {
    body(agent);
  } catch (const std::exception& error) {
    agent.abort(error.what());
    throw;
  }
  agent.shutdown({.timeout = timeout, .leaks = rpc::Leaks::Refuse});
}

void run_as_threads(int workers, const RpcWorldOptions& options, const RpcBody& body) {
  const auto store = std::make_shared<net::MemoryStore>();
  std::mutex mutex;
  std::string failures;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < workers; ++rank)
    threads.emplace_back([&, rank] {
      try {
        run_worker(rpc_worker(options, store, rank, workers), body, options.timeout);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        failures += "\n  worker " + std::to_string(rank) + ": " + error.what();
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  if (!failures.empty())
    throw Error(text(
        "[testing] expected all workers to end well, got",
        failures,
        "; look at the first"));
}

void run_as_processes(
    int workers, const RpcWorldOptions& options, const RpcBody& body) {
  const ScratchFolder folder;
  Processes processes;
  for (int rank = 0; rank < workers; ++rank)
    processes.start([&, rank] {
      const auto store = std::make_shared<net::FileStore>(folder.path() / "store");
      run_worker(rpc_worker(options, store, rank, workers), body, options.timeout);
      return 0;
    });
  expect_good_ends(processes.wait(options.timeout * 2));
}

}  // namespace

std::string to_string(RpcKind kind) {
  return kind == RpcKind::Threads ? "Threads" : "Processes";
}

rpc::AgentOptions rpc_worker(
    const RpcWorldOptions& options,
    std::shared_ptr<net::Store> store,
    int rank,
    int workers) {
  rpc::AgentOptions made{
      .name = "worker" + std::to_string(rank),
      .role = "default",
      .functions = options.functions,
      .store = std::move(store),
      .rank = rank,
      .world_size = workers,
      .meeting = options.timeout,
      .timeout = options.timeout};
  made.pool.threads = 4;
  made.transport.emplace().security = net::Security::insecure_loopback();
  if (options.edit)
    options.edit(made);
  return made;
}

void run_rpc(
    RpcKind kind, int workers, const RpcWorldOptions& options, const RpcBody& body) {
  if (kind == RpcKind::Threads)
    run_as_threads(workers, options, body);
  else
    run_as_processes(workers, options, body);
}

void RpcProcesses::start(const std::function<int(rpc::Agent&)>& body) {
  const int rank = static_cast<int>(processes_.size());
  processes_.start([&, rank] {
    const auto store = std::make_shared<net::FileStore>(folder_.path() / "store");
    rpc::Agent agent(rpc_worker(options_, store, rank, workers_));
    return body(agent);
  });
}

}  // namespace trireme::testing
