// The Chrome trace of a step; the rest of StepReport is in report.cpp.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/pipe/report.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/channels.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {
namespace {

using Json = nlohmann::ordered_json;
using sched::Action;
using sched::ActionKind;

/// The tracks of a rank, from top to bottom.
enum Track { kMeasured, kOverlapped, kMessages, kPlanned };

class Trace {
 public:
  explicit Trace(const StepReport& report)
      : report_(report), channels_(report.schedule), start_ns_(first_start()) {}

  std::string make() {
    for (size_t rank = 0; rank < report_.timelines.size(); ++rank) {
      name(rank, 0, "process_name", text("rank ", rank));
      name(rank, kMeasured, "thread_name", "measured");
      name(rank, kMessages, "thread_name", "messages");
      const auto& actions = report_.timelines[rank].actions;
      if (std::any_of(actions.begin(), actions.end(), [](const ActionTime& one) {
            return one.at_once();
          }))
        name(rank, kOverlapped, "thread_name", text("rank ", rank, ", overlap"));
      for (const ActionTime& one : actions)
        add(rank, one);
      if (!report_.predicted)
        continue;
      name(rank, kPlanned, "thread_name", "planned");
      for (const sched::Timed& timed : report_.predicted->timeline[rank])
        slice(rank, kPlanned, timed.action, timed.start * 1e6, timed.end * 1e6);
    }
    return Json{
               {"traceEvents", std::move(events_)},
               {"displayTimeUnit", "ms"},
               {"otherData",
                {{"schedule", report_.schedule.name},
                 {"peak_bytes", report_.peak_bytes},
                 {"predicted_peak_bytes", report_.predicted_peak_bytes}}}}
               .dump() +
           "\n";
  }

 private:
  int64_t first_start() const {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (const Timeline& timeline : report_.timelines)
      for (const ActionTime& one : timeline.actions)
        first = std::min(first, one.start_ns);
    return first;
  }
  double microseconds(int64_t ns) const {
    return static_cast<double>(ns - start_ns_) * 1e-3;
  }

  void name(size_t rank, int track, const char* kind, const std::string& what) {
    events_.push_back(
        {{"name", kind},
         {"ph", "M"},
         {"pid", rank},
         {"tid", track},
         {"args", {{"name", what}}}});
  }

  void slice(size_t rank, int track, const Action& action, double from, double to) {
    events_.push_back(
        {{"name", sched::to_string(action)},
         {"cat", std::string(sched::token(action.kind()))},
         {"ph", "X"},
         {"ts", from},
         {"dur", to - from},
         {"pid", rank},
         {"tid", track},
         {"args", {{"stage", action.stage()}, {"microbatch", action.microbatch()}}}});
  }

  void slice(size_t rank, int track, const Action& action, const Interval& time) {
    slice(rank, track, action, microseconds(time.start_ns), microseconds(time.end_ns));
  }

  /// Both on one track if they ran in turn, as on the one thread that ran them.
  void add_halves(size_t rank, const ActionTime& one) {
    slice(rank, kMeasured, one.action.forward_half(), one.forward);
    slice(
        rank,
        one.at_once() ? kOverlapped : kMeasured,
        one.action.backward_half(),
        one.backward);
  }

  void add(size_t rank, const ActionTime& one) {
    const bool message =
        sched::is_send(one.action.kind()) || sched::is_receive(one.action.kind());
    if (one.has_halves())
      add_halves(rank, one);
    else
      slice(
          rank,
          message ? kMessages : kMeasured,
          one.action,
          {one.start_ns, one.end_ns});
    if (message)
      arrows(rank, one);
    if (one.live_bytes > 0)
      events_.push_back(
          {{"name", "bytes"},
           {"ph", "C"},
           {"ts", microseconds(one.end_ns)},
           {"pid", rank},
           {"args", {{"live", one.live_bytes}}}});
  }

  /// One end of the arrows of a message: the same number at both.
  void arrows(size_t rank, const ActionTime& one) {
    const Action& action = one.action;
    const bool send = sched::is_send(action.kind());
    const bool forward = action.kind() == ActionKind::SendForward ||
                         action.kind() == ActionKind::ReceiveForward;
    for (const sched::ChannelMap::Use& use : channels_.uses(action)) {
      const int from = send ? action.stage() : use.other;
      const int to = send ? use.other : action.stage();
      Json event{
          {"name", forward ? "activation" : "gradient"},
          {"cat", "message"},
          {"ph", send ? "s" : "f"},
          {"id", text(forward ? "f" : "b", from, ".", to, ".", action.microbatch())},
          {"ts", microseconds(send ? one.start_ns : one.end_ns)},
          {"pid", rank},
          {"tid", static_cast<int>(kMessages)}};
      if (!send)
        event["bp"] = "e";
      events_.push_back(std::move(event));
    }
  }

  const StepReport& report_;
  const sched::ChannelMap channels_;
  const int64_t start_ns_;
  Json events_ = Json::array();
};

}  // namespace

std::string to_trace(const StepReport& report) {
  return Trace(report).make();
}

}  // namespace trireme::pipe
