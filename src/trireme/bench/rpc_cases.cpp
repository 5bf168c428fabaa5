// The table of docs/rpc.md as data.
#include "trireme/bench/rpc.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

constexpr int64_t kRpcMiB = int64_t{1} << 20;
constexpr int kSmallCalls = 500;
constexpr int kCrowd = 64;

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
      .name = text("echo ", name, wire == "tls" ? ", TCP with TLS" : ""),
      .ours = job,
      .peer = job,
      .goal = goal,
      .limit = {},
      .figure = {}};
}

RpcCase quick_case() {
  RpcCase one = echo_case("4 B, quick function", "host", 4, 300, {});
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
      .name = text(
          kSmallCalls, " async calls of 4 B", wire == "tls" ? ", TCP with TLS" : ""),
      .ours = job,
      .peer = job,
      .goal = goal,
      .limit = {},
      .figure = {}};
}

RpcCase crowd_case(
    const std::string& what,
    CrowdFigure figure,
    double seconds,
    const std::string& unit,
    std::optional<double> limit) {
  return {
      .name = text(kCrowd, " clients at once: ", what),
      .ours = {.op = "crowd", .clients = kCrowd, .seconds = seconds},
      .peer = {},
      .goal = {},
      .limit = limit,
      .unit = unit,
      .figure = figure};
}

}  // namespace

// The bursts stand last: once the peer has had one, it echoes in half the time.
std::vector<RpcCase> rpc_cases(bool tls, double crowd_seconds) {
  std::vector<RpcCase> cases{
      echo_case("4 B", "host", 4, 300, 6),
      quick_case(),
      echo_case("1 MiB", "host", kRpcMiB, 50, 4),
      echo_case("16 MiB", "host", 16 * kRpcMiB, 10, 3)};
  if (tls)
    cases.insert(
        cases.end(),
        {echo_case("4 B", "tls", 4, 300, 4),
         echo_case("1 MiB", "tls", kRpcMiB, 50, {})});
  cases.push_back(burst_case("host", 100));
  if (tls)
    cases.push_back(burst_case("tls", {}));
  const auto crowd =
      [&](const char* what, CrowdFigure figure, const char* unit, auto limit) {
        cases.push_back(crowd_case(what, figure, crowd_seconds, unit, limit));
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
