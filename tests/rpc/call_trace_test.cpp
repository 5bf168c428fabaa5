#include "trireme/rpc/call_trace.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

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

std::vector<Json> of_phase(const Json& events, const std::string& phase) {
  std::vector<Json> some;
  for (const Json& event : events)
    if (event["ph"] == phase)
      some.push_back(event);
  return some;
}

const std::vector<WorkerInfo>& two_workers() {
  static const std::vector<WorkerInfo> workers{
      {.id = 0, .name = "a"}, {.id = 1, .name = "b"}};
  return workers;
}

TEST(CallTrace, IsAChromeTraceByTheClockOfTheFirst) {
  CallSpan served = span_at(4000);
  served.side = CallSpan::Side::Callee;
  const Json events = Json::parse(to_chrome_trace(
      {span_at(2000), served},
      two_workers(),
      0,
      {.ns = 1000, .error_ns = 0}))["traceEvents"];
  const auto slices = of_phase(events, "X");
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0]["name"], "add on b");
  EXPECT_EQ(slices[0]["ts"], 3.0);
  EXPECT_EQ(slices[0]["dur"], 1.5);
  EXPECT_EQ(slices[0]["args"]["trace"], "ff");
  EXPECT_EQ(slices[1]["name"], "add for b");
  EXPECT_NE(slices[0]["tid"], slices[1]["tid"]);
  EXPECT_EQ(of_phase(events, "M").size(), 3u);
}

// An arrow is drawn between slices alone: those around its two ends.
TEST(CallTrace, ArrowsStandInSlicesThatDoNotOverlap) {
  std::vector<CallSpan> spans;
  for (const std::int64_t start : {0, 500, 1000, 1500, 2000, 1600}) {
    spans.push_back(span_at(start));
    spans.push_back(span_at(start));
    spans.back().side = CallSpan::Side::Callee;
  }
  spans.back().end_ns = spans.back().start_ns;
  const Json events =
      Json::parse(to_chrome_trace(spans, two_workers(), 0))["traceEvents"];
  const auto slices = of_phase(events, "X");
  ASSERT_EQ(slices.size(), spans.size());
  const auto inside = [](const Json& slice, const Json& other) {
    const double at = other["ts"], from = slice["ts"], dur = slice["dur"];
    return slice["tid"] == other["tid"] && at >= from && at < from + dur;
  };
  for (const Json& slice : slices)
    EXPECT_EQ(
        std::count_if(
            slices.begin(),
            slices.end(),
            [&](const Json& other) { return inside(other, slice); }),
        1)
        << slice;
  for (const char* phase : {"s", "f"}) {
    const auto arrows = of_phase(events, phase);
    EXPECT_EQ(arrows.size(), spans.size() / 2);
    for (const Json& arrow : arrows)
      EXPECT_TRUE(std::any_of(slices.begin(), slices.end(), [&](const Json& slice) {
        return inside(slice, arrow);
      })) << arrow;
  }
}

TEST(CallTraceRanks, BothSidesOfACallHaveOneArrow) {
  FunctionTable functions;
  functions.add("add", [](int a, int b) { return a + b; });
  functions.add(
      "twice", [](int a) { return this_agent().to(0).call<int>("add", a, a); });
  std::atomic<bool> called{false};
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
          called = true;
        }
        // One call and one that was served; its end is noted before it is answered.
        const Deadline deadline = Deadline::after(std::chrono::seconds(10));
        while (!called && !deadline.expired())
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::lock_guard lock(mutex);
        events[agent.me().id] = Json::parse(agent.chrome_trace())["traceEvents"];
      });
  std::set<std::string> traces, starts, ends;
  std::map<std::string, int> names;
  for (const auto& [worker, all] : events) {
    for (const Json& slice : of_phase(all, "X")) {
      ++names[slice["name"]];
      traces.insert(slice["args"]["trace"]);
    }
    for (const Json& arrow : of_phase(all, "s"))
      starts.insert(arrow["id"]);
    for (const Json& arrow : of_phase(all, "f"))
      ends.insert(arrow["id"]);
  }
  EXPECT_EQ(
      names,
      (std::map<std::string, int>{
          {"twice on worker1", 1},
          {"twice for worker0", 1},
          {"add on worker0", 1},
          {"add for worker1", 1}}));
  EXPECT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts, ends);
  EXPECT_EQ(traces.size(), 1u) << "a nested call belongs to the trace of its caller";
}

}  // namespace
}  // namespace trireme::rpc
