// Worlds of workers for tests: as threads of one process, or as processes that may be
// killed.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "trireme/net/store.h"
#include "trireme/rpc/agent.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/testing/world.h"

namespace trireme::testing {

enum class RpcKind {
  Threads,
  Processes,
};
std::string to_string(RpcKind kind);

using RpcBody = std::function<void(rpc::Agent&)>;

/// What the workers of a world have in common.
struct RpcWorldOptions {
  rpc::FunctionTable functions{};
  /// Changes the options of each worker; its rank stands in them.
  std::function<void(rpc::AgentOptions&)> edit{};
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

/// Options of a worker "worker0", "worker1" …, which speaks plainly with others of this
/// host.
rpc::AgentOptions rpc_worker(
    const RpcWorldOptions& options,
    std::shared_ptr<net::Store> store,
    int rank,
    int workers);

/// Runs `body` on every worker, then a graceful shutdown, which fails where references
/// are left. Throws if one of them failed.
///
///     run_rpc(RpcKind::Threads, 2, {.functions = functions}, [](rpc::Agent& agent) {
///       EXPECT_EQ(agent.to("worker0").call<int>("add", 1, 2), 3);
///     });
void run_rpc(
    RpcKind kind, int workers, const RpcWorldOptions& options, const RpcBody& body);

/// Workers as processes that a test starts and kills one by one.
class RpcProcesses {
 public:
  RpcProcesses(int workers, RpcWorldOptions options)
      : workers_(workers), options_(std::move(options)) {}

  /// Starts the next worker; `body` has its own way to end.
  void start(const std::function<int(rpc::Agent&)>& body);
  Processes& processes() { return processes_; }

 private:
  int workers_;
  RpcWorldOptions options_;
  ScratchFolder folder_;
  Processes processes_;
};

}  // namespace trireme::testing
