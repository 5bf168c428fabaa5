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
TcpPlace tcp_place(const std::string& master) {
  int code = 0;
  const net::Address meeting = net::Address::tcp(master, 9);
  for (const net::Endpoint& there : net::resolve(meeting)) {
    const FileDescriptor socket(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (::connect(
            socket.get(),
            reinterpret_cast<const sockaddr*>(&there.storage),
            there.length) == 0) {
      const net::Endpoint here = net::local_endpoint(socket.get());
      const std::string host = here.address().host;
      if (!here.stays_here() || net::is_loopback_name(meeting.host))
        return {.listen = net::Address::tcp(host, 0), .host = host};
      const char* everywhere = here.family() == AF_INET6 ? "::" : "0.0.0.0";
      return {.listen = net::Address::tcp(everywhere, 0), .host = meeting.host};
    }
    code = errno;
  }
  throw InvalidArgument(text(
      "[comm] expected a way to MASTER_ADDR ",
      master,
      ", got ",
      errno_text(code),
      "; set MASTER_ADDR to an address that all hosts can reach"));
}

std::shared_ptr<Engine> start_tcp(const BackendContext& context) {
  const LaunchEnv& env = context.env;
  const Environment variables = Environment::of_process();
  const auto security = net::Security::from_environment(variables);
  const auto restarts = static_cast<uint64_t>(env.restart_count);
  const auto heartbeat = read_heartbeat(variables);
  TcpPlace place = tcp_place(env.master_addr);
  const TcpSetup setup{
      .rank = env.rank,
      .size = env.world_size,
      .store = net::open_store(
          "env://",
          {.env = variables,
           .security = security,
           .rank = env.rank,
           .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
               context.deadline.remaining()),
           .heartbeat = heartbeat}),
      .security = security,
      .job = env.run_id,
      .incarnation = restarts,
      .listen = std::move(place.listen),
      .host = std::move(place.host),
      .flight_folder = flight_folder(record_name(env)),
      .heartbeat = heartbeat};
  auto flat = std::make_shared<WireEngine>(TcpWire::root(setup, context.deadline));
  return join_hosts(context, std::move(flat));
}

}  // namespace trireme::comm
