// How packets travel in tests: over a Unix socket, or over TCP under TLS.
#pragma once
#include <memory>
#include <string>

#include "../net/certificate_files.h"
#include "trireme/net/job_key.h"
#include "trireme/net/security.h"
#include "worlds.h"

namespace trireme::dist_autograd {

enum class Road { UnixSocket, TcpJobKey, TcpCertificates };
inline constexpr Road kRoads[] = {
    Road::UnixSocket, Road::TcpJobKey, Road::TcpCertificates};
inline std::string to_string(Road road) {
  constexpr const char* kNames[] = {"UnixSocket", "TcpJobKey", "TcpCertificates"};
  return kNames[static_cast<int>(road)];
}

/// Options of worlds whose packets take one of the roads.
///
///     const Journey journey(Road::TcpJobKey);
///     testing::run_rpc(kind, 4, journey.options(functions), body);
class Journey {
 public:
  explicit Journey(Road road) : road_(road) {}

  testing::RpcWorldOptions options(rpc::FunctionTable functions) const {
    auto options = with_functions(std::move(functions));
    if (road_ != Road::UnixSocket)
      options.edit = [this, edit = options.edit](rpc::AgentOptions& worker) {
        edit(worker);
        worker.transport->unix_sockets = worker.transport->shared_memory = false;
        worker.transport->security = security(worker.name);
      };
    return options;
  }

 private:
  net::Security security(const std::string& name) const {
    if (road_ == Road::TcpJobKey)
      return net::Security::job_key(key_);
    const std::lock_guard lock(mutex_);
    return authority_.worker(name);
  }

  Road road_;
  net::JobKey key_ = net::JobKey::random();
  mutable std::mutex mutex_;
  mutable net::TestAuthority authority_;
};

}  // namespace trireme::dist_autograd
