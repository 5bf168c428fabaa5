#include "trireme/rpc/call_trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/rpc/agent.h"
#include "trireme/testing/rpc_world.h"

namespace trireme::rpc {
namespace {

using Json = nlohmann::json;

CallSpan span_at(std::int64_t start) {
  return {
      .function = "add",
      .other = 1,
      .trace = 255,
      .call = 7,
      .start_ns = start,
      .end_ns = start + 1500,
      .end = "value"};
}

TEST(CallTrace, KeepsTheLastOnesInOrder) {
  CallTrace trace;
  EXPECT_FALSE(trace.on());
  trace.add(span_at(1));
  EXPECT_TRUE(trace.spans().empty());
  trace.keep(3);
  EXPECT_TRUE(trace.on());
  for (const std::int64_t start : {10, 30, 20, 50, 40})
    trace.add(span_at(start));
  std::vector<std::int64_t> starts;
  for (const CallSpan& span : trace.spans())
    starts.push_back(span.start_ns);
  EXPECT_EQ(starts, (std::vector<std::int64_t>{20, 40, 50}));
}

TEST(CallTrace, IsAChromeTraceByTheClockOfTheFirst) {
  CallSpan served = span_at(4000);
  served.side = CallSpan::Side::Callee;
  const std::vector<WorkerInfo> workers{{.id = 0, .name = "a"}, {.id = 1, .name = "b"}};
  const Json events = Json::parse(to_chrome_trace(
      {span_at(2000), served}, workers, 0, {.ns = 1000, .error_ns = 0}))["traceEvents"];
  std::map<std::string, int> phases;
  for (const Json& event : events)
    ++phases[event["ph"]];
  EXPECT_EQ(
      phases,
      (std::map<std::string, int>{{"M", 3}, {"b", 2}, {"e", 2}, {"f", 1}, {"s", 1}}));
  EXPECT_EQ(events[3]["name"], "add on b");
  EXPECT_EQ(events[3]["ts"], 3.0);
  EXPECT_EQ(events[3]["args"]["trace"], "ff");
  EXPECT_EQ(events[4]["ts"], 4.5);
  EXPECT_EQ(events[6]["name"], "add for b");
}

TEST(CallTraceRanks, BothSidesOfACallHaveOneArrow) {
  FunctionTable functions;
  functions.add("add", [](int a, int b) { return a + b; });
  functions.add(
      "twice", [](int a) { return this_agent().to(0).call<int>("add", a, a); });
  std::mutex mutex;
  std::map<int, Json> events;
  testing::run_rpc(
      testing::RpcKind::Threads,
      2,
      {.functions = functions,
       .edit = [](AgentOptions& options) { options.trace_calls = 100; }},
      [&](Agent& agent) {
        if (agent.me().id == 0) {
          EXPECT_EQ(agent.to(1).call<int>("twice", 2), 4);
        }
        // The other side has noted its end when it answered.
        const std::lock_guard lock(mutex);
        if (agent.me().id == 0)
          events[0] = Json::parse(agent.chrome_trace())["traceEvents"];
      });
  std::map<std::string, std::vector<std::string>> ids;
  std::set<std::string> traces;
  for (const Json& event : events[0]) {
    if (event["ph"] == "b") {
      ids[event["name"]].push_back(event["id"]);
      traces.insert(event["args"]["trace"]);
    }
  }
  EXPECT_EQ(ids["twice on worker1"].size(), 1u);
  EXPECT_EQ(ids["add for worker1"].size(), 1u);
  EXPECT_EQ(traces.size(), 1u) << "a nested call belongs to the trace of its caller";
}

}  // namespace
}  // namespace trireme::rpc
