// The table of docs/rpc.md as data.
#include "trireme/bench/rpc.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

constexpr int64_t kRpcMiB = int64_t{1} << 20;
constexpr int kSmallCalls = 500;
constexpr int kCrowd = 64;

// How the workers talk, behind a case's name; nothing for the way that is the default.
std::string by_wire(const std::string& wire) {
  return wire == "tls" ? ", TCP with TLS" : wire == "plain" ? ", plain" : "";
}

// One that waits for each call.
RpcCase echo_case(
    const std::string& name,
    const std::string& wire,
    int64_t bytes,
    int repetitions,
    std::optional<double> goal) {
  const RpcJob job{
      .wire = wire,
      .bytes = bytes,
      .warm_up = std::max(1, repetitions / 10),
      .repetitions = repetitions};
  return {
      .name = text("echo ", name, by_wire(wire)),
      .ours = job,
      .peer = job,
      .goal = goal,
      .limit = {},
      .figure = {}};
}

RpcCase quick_case(const std::string& wire) {
  RpcCase one = echo_case("4 B, quick function", wire, 4, 300, {});
  one.ours.quick = true;
  return one;
}

RpcCase burst_case(const std::string& wire, std::optional<double> goal) {
  const RpcJob job{
      .op = "burst",
      .wire = wire,
      .calls = kSmallCalls,
      .warm_up = 2,
      .repetitions = 5};
  return {
      .name = text(kSmallCalls, " async calls of 4 B", by_wire(wire)),
      .ours = job,
      .peer = job,
      .goal = goal,
      .limit = {},
      .figure = {}};
}

RpcCase crowd_case(
    const std::string& what,
    const std::string& wire,
    CrowdFigure figure,
    double seconds,
    const std::string& unit,
    std::optional<double> limit) {
  return {
      .name = text(kCrowd, " clients at once: ", what),
      .ours = {.op = "crowd", .wire = wire, .clients = kCrowd, .seconds = seconds},
      .peer = {},
      .goal = {},
      .limit = limit,
      .unit = unit,
      .figure = figure};
}

}  // namespace

// The goals are for what users get who ask for nothing else; without TLS, that is
// plain. The bursts stand last: once the peer has had one, it echoes in half the time.
std::vector<RpcCase> rpc_cases(bool tls, double crowd_seconds) {
  const std::string usual = tls ? "host" : "plain";
  std::vector<RpcCase> cases{
      echo_case("4 B", usual, 4, 300, 6),
      quick_case(usual),
      echo_case("1 MiB", usual, kRpcMiB, 50, 4),
      echo_case("16 MiB", usual, 16 * kRpcMiB, 10, 3)};
  if (tls)
    cases.insert(
        cases.end(),
        {echo_case("4 B", "plain", 4, 300, {}),
         echo_case("1 MiB", "plain", kRpcMiB, 50, {}),
         echo_case("4 B", "tls", 4, 300, 4),
         echo_case("1 MiB", "tls", kRpcMiB, 50, {})});
  cases.push_back(burst_case(usual, 100));
  if (tls) {
    cases.push_back(burst_case("plain", {}));
    cases.push_back(burst_case("tls", {}));
  }
  const auto crowd =
      [&](const char* what, CrowdFigure figure, const char* unit, auto limit) {
        cases.push_back(crowd_case(what, usual, figure, crowd_seconds, unit, limit));
      };
  using Limit = std::optional<double>;
  crowd("calls lost", CrowdFigure::Lost, "calls", Limit(0));
  crowd("slowest of 100 over the median", CrowdFigure::Tail, "x", Limit(20));
  // Pages that are used for the first time; a leak of 1 byte a call would be far more.
  crowd("growth of the server", CrowdFigure::Growth, "KiB", Limit(1024));
  crowd("median of a call", CrowdFigure::Median, "us", Limit());
  return cases;
}

}  // namespace trireme::bench
