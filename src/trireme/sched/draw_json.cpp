// The files for other programs.
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/draw.h"

namespace trireme::sched {
namespace {

using Json = nlohmann::ordered_json;

const char* category(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return "forward";
    case ActionKind::Backward:
      return "backward";
    case ActionKind::InputGrad:
      return "input_grad";
    case ActionKind::WeightGrad:
      return "weight_grad";
    default:
      return "overlap";
  }
}

// The tracks of a rank.
constexpr int kComputations = 0, kMessages = 1;

// The number that joins the two ends of a message's arrow: the same on both.
std::string flow_id(const Schedule& schedule, bool forward, int from, int to, int m) {
  const int64_t edge = int64_t{from} * schedule.stages() + to;
  return text(forward ? "f" : "b", edge, ".", m);
}

class Trace {
 public:
  explicit Trace(const Schedule& schedule) : schedule_(schedule), graph_(schedule) {}

  void add_rank(int rank, const std::vector<Timed>& list) {
    events_.push_back(
        {{"name", "process_name"},
         {"ph", "M"},
         {"pid", rank},
         {"tid", kComputations},
         {"args", {{"name", text("rank ", rank)}}}});
    for (const Timed& timed : list) {
      events_.push_back(
          {{"name", to_string(timed.action)},
           {"cat", category(timed.action.kind())},
           {"ph", "X"},
           {"ts", timed.start},
           {"dur", timed.end - timed.start},
           {"pid", rank},
           {"tid", kComputations},
           {"args",
            {{"stage", timed.action.stage()},
             {"microbatch", timed.action.microbatch()}}}});
      for_each_half(
          timed.action, [&](const Action& half) { add_flows(rank, timed, half); });
    }
  }

  // Instants, since messages overlap: each when it leaves, and when it is there.
  void add_message(const Message& message) {
    const int from = message.made_by.stage(), m = message.made_by.microbatch();
    const bool forward = message.made_by.kind() == ActionKind::Forward;
    const int sender = schedule_.owner(from), receiver = schedule_.owner(message.to);
    add_instant(
        {forward ? ActionKind::SendForward : ActionKind::SendBackward, from, m},
        message.start,
        sender,
        {{"to_rank", receiver}, {"to_stage", message.to}});
    add_instant(
        {forward ? ActionKind::ReceiveForward : ActionKind::ReceiveBackward,
         message.to,
         m},
        message.end,
        receiver,
        {{"from_rank", sender}, {"from_stage", from}});
  }

  void name_track(int rank, int track, const char* name) {
    events_.push_back(
        {{"name", "thread_name"},
         {"ph", "M"},
         {"pid", rank},
         {"tid", track},
         {"args", {{"name", name}}}});
  }

  std::string finish() {
    const Json root{{"traceEvents", std::move(events_)}, {"displayTimeUnit", "ms"}};
    return root.dump() + "\n";
  }

 private:
  void add_instant(const Action& action, double time, int rank, const Json& args) {
    events_.push_back(
        {{"name", to_string(action)},
         {"cat", is_send(action.kind()) ? "send" : "receive"},
         {"ph", "i"},
         {"s", "t"},
         {"ts", time},
         {"pid", rank},
         {"tid", kMessages},
         {"args", args}});
  }

  void add_flows(int rank, const Timed& timed, const Action& half) {
    if (half.kind() == ActionKind::WeightGrad)
      return;
    const bool forward = half.kind() == ActionKind::Forward;
    const int stage = half.stage(), m = half.microbatch();
    const auto add = [&](int other, bool start) {
      if (schedule_.owner(other) == rank)
        return;
      events_.push_back(
          {{"name", forward ? "activation" : "gradient"},
           {"cat", "message"},
           {"ph", start ? "s" : "f"},
           {"id",
            start ? flow_id(schedule_, forward, stage, other, m)
                  : flow_id(schedule_, forward, other, stage, m)},
           {"ts", start ? timed.end : timed.start},
           {"pid", rank},
           {"tid", kComputations}});
      if (start)
        return;
      events_.back()["bp"] = "e";
    };
    for (const int next : forward ? graph_.after(stage) : graph_.before(stage))
      add(next, true);
    for (const int source : forward ? graph_.before(stage) : graph_.after(stage))
      add(source, false);
  }

  const Schedule& schedule_;
  const StageGraph graph_;
  Json events_ = Json::array();
};

}  // namespace

std::string to_trace(const Schedule& schedule, const Simulation& simulation) {
  Trace trace(schedule);
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    trace.add_rank(rank, simulation.timeline[static_cast<size_t>(rank)]);
  if (!simulation.messages.empty())
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      trace.name_track(rank, kComputations, "computations");
      trace.name_track(rank, kMessages, "messages");
    }
  for (const Message& message : simulation.messages)
    trace.add_message(message);
  return trace.finish();
}

std::string to_json(const Schedule& schedule) {
  Json root{
      {"name", schedule.name},
      {"ranks", schedule.ranks()},
      {"stages", schedule.stages()},
      {"microbatches", schedule.microbatches},
      {"lowered", schedule.lowered},
      {"rank_of_stage", schedule.rank_of_stage},
      {"actions", Json::array()}};
  for (const auto& list : schedule.actions) {
    Json row = Json::array();
    for (const Action& action : list)
      row.push_back(to_string(action));
    root["actions"].push_back(std::move(row));
  }
  return root.dump() + "\n";
}

}  // namespace trireme::sched
