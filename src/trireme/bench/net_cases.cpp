// The table of docs/benchmarks.md as data.
#include "trireme/bench/net.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kIdleConnections = 1000;

NetJob ask(const std::string& wire, int64_t bytes, int64_t reply, int repetitions) {
  return {
      .wire = wire,
      .bytes = bytes,
      .reply = reply,
      .warm_up = std::max(1, repetitions / 10),
      .repetitions = repetitions};
}

constexpr int kRoundTrips = 1000;

// From send() to received(): the thread that reads is the one that goes on, on both
// sides of the comparison.
NetCase round_trip(const std::string& wire, double times_of_socket) {
  NetJob ours = ask(wire, 64, 64, kRoundTrips);
  ours.op = "chain";
  return {
      .name = text("64 B there and back, ", wire),
      .ours = ours,
      .peer = ask("socket", 64, 64, kRoundTrips),
      .goal = 1 / times_of_socket,
      .limit = {}};
}

// One more thread to wake, of which a socket knows nothing.
NetCase round_trip_to_thread(const std::string& wire) {
  NetCase one = round_trip(wire, 1);
  one.name += ", to a waiting thread";
  one.ours.op = "ask";
  one.goal.reset();
  return one;
}

// With an answer of one byte, so that one clock sees both ends.
NetCase one_way(const std::string& wire, const std::string& peer, double share) {
  return {
      .name = text("64 MiB one way, ", wire),
      .ours = ask(wire, 64 * kMiB, 1, 3),
      .peer = ask(peer, 64 * kMiB, 1, 3),
      .goal = share,
      .limit = {}};
}

NetCase overtaking(const std::string& wire, double limit_us) {
  return {
      .name = text("4 B behind 256 MiB, ", wire),
      .ours = {.wire = wire, .op = "overtake", .bytes = 256 * kMiB, .repetitions = 3},
      .peer = {},
      .goal = {},
      .limit = limit_us};
}

NetCase idle(const std::string& wire, double limit_mib) {
  return {
      .name = text("memory of ", kIdleConnections, " idle connections, ", wire),
      .ours = {.wire = wire, .op = "idle", .connections = kIdleConnections},
      .peer = {},
      .goal = {},
      .limit = 1024 * limit_mib,
      .unit = "KiB"};
}

}  // namespace

std::vector<NetCase> net_cases() {
  return {
      round_trip("plain", 2),
      round_trip_to_thread("plain"),
      one_way("plain", "socket", 0.8),
      overtaking("plain", 5e3),
      idle("plain", 64),
      round_trip("key", 2.5),
      round_trip_to_thread("key"),
      one_way("key", "openssl", 0.9),
      overtaking("key", 5e3),
      idle("key", 64)};
}

}  // namespace trireme::bench
