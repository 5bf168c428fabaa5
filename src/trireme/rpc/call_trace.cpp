#include "trireme/rpc/call_trace.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

namespace trireme::rpc {

namespace {

using Json = nlohmann::json;

// Behind those of pipelines and data parallelism.
enum CallTrack { kCalls = 100, kRuns = 101 };

Json track_name(WorkerId me, int track, const char* name) {
  return {
      {"name", "thread_name"},
      {"ph", "M"},
      {"pid", me},
      {"tid", track},
      {"args", {{"name", name}}}};
}

double microseconds(std::int64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

}  // namespace

void CallTrace::add(CallSpan span) {
  const std::lock_guard lock(mutex_);
  const std::size_t most = most_.load();
  if (spans_.size() < most) {
    spans_.push_back(std::move(span));
  } else if (most > 0) {
    spans_[next_ % spans_.size()] = std::move(span);
    ++next_;
  }
}

std::vector<CallSpan> CallTrace::spans() const {
  const std::lock_guard lock(mutex_);
  std::vector<CallSpan> ordered = spans_;
  std::stable_sort(
      ordered.begin(), ordered.end(), [](const CallSpan& a, const CallSpan& b) {
        return a.start_ns < b.start_ns;
      });
  return ordered;
}

std::string to_chrome_trace(
    const std::vector<CallSpan>& spans,
    const std::vector<WorkerInfo>& workers,
    WorkerId me,
    const comm::ClockOffset& clock) {
  const auto name_of = [&](WorkerId worker) {
    return workers.at(static_cast<std::size_t>(worker)).name;
  };
  Json events = Json::array(
      {{{"name", "process_name"},
        {"ph", "M"},
        {"pid", me},
        {"args", {{"name", name_of(me)}}}},
       track_name(me, kCalls, "calls"),
       track_name(me, kRuns, "served")});
  for (const CallSpan& span : spans) {
    const bool called = span.side == CallSpan::Side::Caller;
    const int track = called ? kCalls : kRuns;
    const double start = microseconds(span.start_ns + clock.ns);
    const double end = microseconds(std::max(span.start_ns, span.end_ns) + clock.ns);
    const WorkerId caller = called ? me : span.other;
    // Calls overlap, so each is an event of its own, not a slice of a stack.
    const std::string id = text(caller, ".", span.call, called ? "" : "'");
    const std::string name = called ? text(span.function, " on ", name_of(span.other))
                                    : text(span.function, " for ", name_of(span.other));
    const Json common{
        {"name", name}, {"cat", "rpc"}, {"id", id}, {"pid", me}, {"tid", track}};
    Json begin = common, stop = common, arrow = common;
    begin.update(
        {{"ph", "b"},
         {"ts", start},
         {"args", {{"trace", text(std::hex, span.trace)}, {"end", span.end}}}});
    stop.update({{"ph", "e"}, {"ts", end}});
    arrow.update(
        {{"name", "call"},
         {"id", text(caller, ".", span.call)},
         {"ph", called ? "s" : "f"},
         {"bp", "e"},
         {"ts", start}});
    events.push_back(std::move(begin));
    events.push_back(std::move(stop));
    events.push_back(std::move(arrow));
  }
  return Json{{"traceEvents", std::move(events)}}.dump();
}

}  // namespace trireme::rpc
