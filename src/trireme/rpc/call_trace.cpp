#include "trireme/rpc/call_trace.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

namespace trireme::rpc {

namespace {

using Json = nlohmann::json;

// Behind the tracks of pipelines and data parallelism.
constexpr int kFirstTrack = 100;
// Shorter ones would have no place inside of them where an arrow could end.
constexpr std::int64_t kShortest = 100;

// Calls overlap, and slices of one track must not: each call takes the first track
// where there is room.
class Lanes {
 public:
  std::size_t take(std::int64_t start, std::int64_t end) {
    const auto free = std::find_if(
        ends_.begin(), ends_.end(), [&](std::int64_t last) { return last <= start; });
    if (free == ends_.end()) {
      ends_.push_back(end);
      return ends_.size() - 1;
    }
    *free = end;
    return static_cast<std::size_t>(free - ends_.begin());
  }
  std::size_t count() const { return ends_.size(); }

 private:
  std::vector<std::int64_t> ends_;
};

// A call with the time that it takes on its track.
struct Slice {
  const CallSpan* span = nullptr;
  std::int64_t end_ns = 0;
  std::size_t lane = 0;
};

std::vector<Slice> pack_lanes(
    const std::vector<CallSpan>& spans, CallSpan::Side side, Lanes& lanes) {
  std::vector<Slice> slices;
  for (const CallSpan& span : spans)
    if (span.side == side)
      slices.push_back(
          {.span = &span, .end_ns = std::max(span.end_ns, span.start_ns + kShortest)});
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.span->start_ns < b.span->start_ns;
  });
  for (Slice& slice : slices)
    slice.lane = lanes.take(slice.span->start_ns, slice.end_ns);
  return slices;
}

Json track_name(WorkerId me, std::size_t track, const char* name) {
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
        {"args", {{"name", name_of(me)}}}}});
  std::size_t first = kFirstTrack;
  for (const auto side : {CallSpan::Side::Caller, CallSpan::Side::Callee}) {
    const bool called = side == CallSpan::Side::Caller;
    Lanes lanes;
    for (const Slice& slice : pack_lanes(spans, side, lanes)) {
      const CallSpan& span = *slice.span;
      const std::string other = name_of(span.other);
      const Json common{
          {"cat", "rpc"},
          {"pid", me},
          {"tid", first + slice.lane},
          {"ts", microseconds(span.start_ns + clock.ns)}};
      Json whole = common, arrow = common;
      whole.update(
          {{"name", text(span.function, called ? " on " : " for ", other)},
           {"ph", "X"},
           {"dur", microseconds(slice.end_ns - span.start_ns)},
           {"args", {{"trace", text(std::hex, span.trace)}, {"end", span.end}}}});
      // Both sides give the same id; "bp" has the arrow end at the slice around it.
      arrow.update(
          {{"name", "call"},
           {"id", text(called ? me : span.other, ".", span.call)},
           {"ph", called ? "s" : "f"},
           {"bp", "e"}});
      events.push_back(std::move(whole));
      events.push_back(std::move(arrow));
    }
    for (std::size_t lane = 0; lane < lanes.count(); ++lane)
      events.push_back(track_name(me, first + lane, called ? "calls" : "served"));
    first += lanes.count();
  }
  return Json{{"traceEvents", std::move(events)}}.dump();
}

}  // namespace trireme::rpc
