#include "trireme/comm/tcp/tcp_backend.h"

#include <cctype>
#include <cerrno>
#include <sys/socket.h>

#include "trireme/comm/flight_recorder.h"
#include "trireme/comm/tcp/tcp_wire.h"
#include "trireme/comm/wire/hosts.h"
#include "trireme/core/error.h"
#include "trireme/net/rendezvous.h"

namespace trireme::comm {
namespace {

// One job's records must not lie in another's folder.
std::string record_name(const LaunchEnv& env) {
  std::string name = "tcp-";
  for (const char c : env.run_id.empty() ? std::to_string(env.master_port) : env.run_id)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return name;
}

}  // namespace

// Connecting a socket for datagrams sends nothing: it only chooses the way.
std::string address_towards(const std::string& host) {
  int code = 0;
  for (const net::Endpoint& there : net::resolve(net::Address::tcp(host, 9))) {
    const FileDescriptor socket(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (::connect(
            socket.get(),
            reinterpret_cast<const sockaddr*>(&there.storage),
            there.length) == 0)
      return net::local_endpoint(socket.get()).address().host;
    code = errno;
  }
  throw InvalidArgument(text(
      "[comm] expected a way to MASTER_ADDR ",
      host,
      ", got ",
      errno_text(code),
      "; set MASTER_ADDR to an address that all hosts can reach"));
}

std::shared_ptr<Engine> start_tcp(const BackendContext& context) {
  const LaunchEnv& env = context.env;
  const Environment variables = Environment::of_process();
  const auto security = net::Security::from_environment(variables);
  const auto restarts = static_cast<uint64_t>(env.restart_count);
  TcpSetup setup{
      .rank = env.rank,
      .size = env.world_size,
      .store = net::open_store(
          "env://",
          {.env = variables,
           .security = security,
           .rank = env.rank,
           .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
               context.deadline.remaining())}),
      .security = security,
      .job = env.run_id,
      .incarnation = restarts,
      .listen = net::Address::tcp(address_towards(env.master_addr), 0),
      .flight_folder = flight_folder(record_name(env))};
  auto flat =
      std::make_shared<WireEngine>(TcpWire::root(std::move(setup), context.deadline));
  return join_hosts(context, std::move(flat));
}

}  // namespace trireme::comm
