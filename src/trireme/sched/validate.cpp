#include "trireme/sched/validate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/sched/action_text.h"

namespace trireme::sched {
namespace {

using Kind = ActionKind;

// One bit a kind, for what has been seen of a stage's microbatch.
constexpr uint16_t bit(Kind kind) {
  return static_cast<uint16_t>(1U << static_cast<unsigned>(kind));
}
constexpr uint16_t kAnyBackward =
    bit(Kind::Backward) | bit(Kind::InputGrad) | bit(Kind::WeightGrad);
constexpr uint16_t kInputDone = bit(Kind::Backward) | bit(Kind::InputGrad);

// Why the action cannot be on this rank; empty if it can.
std::string misplaced(const Schedule& schedule, const Action& action, int rank) {
  if (action.stage() >= schedule.stages())
    return text("there is no stage ", action.stage());
  const int owner = schedule.owner(action.stage());
  return owner == rank ? ""
                       : text("stage ", action.stage(), " belongs to rank ", owner);
}

class Validator {
 public:
  explicit Validator(const Schedule& schedule)
      : schedule_(schedule),
        graph_(schedule),
        seen_(
            static_cast<size_t>(schedule.stages()) *
            static_cast<size_t>(schedule.microbatches)),
        whole_(static_cast<size_t>(schedule.stages())) {}

  std::optional<Flaw> run() {
    note_stage_actions();
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const auto& list = schedule_.actions[static_cast<size_t>(rank)];
      for (size_t i = 0; i < list.size(); ++i) {
        cell_ = {.rank = rank, .step = static_cast<int64_t>(i)};
        check_halves(list[i]);
        for_each_half(list[i], [this](const Action& half) { check(half); });
        if (flaw_)
          return flaw_;
      }
    }
    check_complete();
    return flaw_;
  }

 private:
  /// What a stage as a whole has: parameters gathered, gradients reduced.
  struct Whole {
    bool sharded = false;  // it is unsharded somewhere, so it has to be for computing
    bool gathered = false;
    bool reduced = false;
    int backwards = 0;
  };

  void note_stage_actions() {
    for (const auto& list : schedule_.actions)
      for (const Action& action : list)
        if (action.kind() == Kind::Unshard && action.stage() < schedule_.stages())
          whole_[static_cast<size_t>(action.stage())].sharded = true;
  }

  template <class... Parts>
  void fail(const Parts&... what) {
    if (!flaw_)
      flaw_ = Flaw{.cell = cell_, .what = text(what...)};
  }

  uint16_t& seen(int stage, int microbatch) {
    return seen_
        [static_cast<size_t>(stage) * static_cast<size_t>(schedule_.microbatches) +
         static_cast<size_t>(microbatch)];
  }

  bool is_local(int stage) const { return schedule_.owner(stage) == cell_.rank; }

  // A backward needs its own forward to have ended, not to run beside it.
  void check_halves(const Action& action) {
    if (action.kind() == Kind::Overlap &&
        action.forward_half().stage() == action.backward_half().stage() &&
        action.forward_half().microbatch() == action.backward_half().microbatch())
      fail("its B needs its F to have ended");
  }

  void check(const Action& action) {
    const Kind kind = action.kind();
    if (kind == Kind::Bubble)
      return;
    if (const std::string wrong = misplaced(schedule_, action, cell_.rank);
        !wrong.empty())
      return fail(wrong);
    if (!is_compute(kind) && !schedule_.lowered)
      return fail("a compute-only schedule has no ", token(kind));
    if (!has_microbatch(kind))
      return check_whole(action);
    if (action.microbatch() < 0 || action.microbatch() >= schedule_.microbatches)
      return fail("there are only ", schedule_.microbatches, " microbatches");
    uint16_t& flags = seen(action.stage(), action.microbatch());
    if ((flags & bit(kind)) != 0)
      return fail("it is there twice");
    check_order(action, flags);
    flags |= bit(kind);
  }

  void check_whole(const Action& action) {
    Whole& whole = whole_[static_cast<size_t>(action.stage())];
    switch (action.kind()) {
      case Kind::Unshard:
        if (whole.gathered)
          fail("the stage is unsharded already");
        whole.gathered = true;
        break;
      case Kind::Reshard:
        if (!whole.gathered)
          fail("the stage is not unsharded");
        whole.gathered = false;
        break;
      default:
        if (whole.reduced)
          fail("it is there twice");
        if (whole.backwards != schedule_.microbatches)
          fail(
              "it comes after ",
              whole.backwards,
              " of ",
              schedule_.microbatches,
              " backwards of the stage");
        whole.reduced = true;
        any_reduced_ = true;
    }
  }

  void check_order(const Action& action, uint16_t flags) {
    const int stage = action.stage();
    Whole& whole = whole_[static_cast<size_t>(stage)];
    if (is_compute(action.kind()) && whole.sharded && !whole.gathered)
      fail("the stage is not unsharded");
    switch (action.kind()) {
      case Kind::Forward:
        check_inputs(
            action, graph_.before(stage), bit(Kind::Forward), Kind::ReceiveForward);
        break;
      case Kind::Backward:
      case Kind::InputGrad:
        if ((flags & bit(Kind::Forward)) == 0)
          fail("its F comes later or not at all");
        if ((flags & kAnyBackward) != 0)
          fail("it has a backward already");
        check_inputs(action, graph_.after(stage), kInputDone, Kind::ReceiveBackward);
        break;
      case Kind::WeightGrad:
        if ((flags & bit(Kind::InputGrad)) == 0)
          fail("its I comes later or not at all");
        break;
      default:
        check_message(action, flags);
    }
    if (gives_weight_grad(action.kind()))
      ++whole.backwards;
  }

  // What a computation takes from its neighbours: on this rank it must be computed,
  // from others it must have been received.
  void check_inputs(
      const Action& action,
      const std::vector<int>& neighbours,
      uint16_t computed,
      Kind receive) {
    bool remote = false;
    for (const int other : neighbours) {
      if (!is_local(other))
        remote = true;
      else if ((seen(other, action.microbatch()) & computed) == 0)
        fail(
            "it needs stage ", other, " of this rank, which comes later or not at all");
    }
    const bool received =
        (seen(action.stage(), action.microbatch()) & bit(receive)) != 0;
    if (remote && schedule_.lowered && !received)
      fail(
          "it needs ",
          to_string({receive, action.stage(), action.microbatch()}),
          " before it");
  }

  void check_message(const Action& action, uint16_t flags) {
    const bool forward =
        action.kind() == Kind::SendForward || action.kind() == Kind::ReceiveForward;
    const bool send = is_send(action.kind());
    const auto& others =
        forward == send ? graph_.after(action.stage()) : graph_.before(action.stage());
    if (std::all_of(
            others.begin(), others.end(), [this](int s) { return is_local(s); }))
      return fail(
          others.empty() ? "there is no such neighbour"
                         : "its neighbour is on this rank");
    const uint16_t own = forward ? bit(Kind::Forward) : kInputDone;
    if (send && (flags & own) == 0)
      fail("what it sends is computed later or not at all");
    if (!send && (flags & own) != 0)
      fail("what it receives was needed before");
  }

  void check_complete() {
    const bool evaluation =
        std::none_of(seen_.begin(), seen_.end(), [](uint16_t flags) {
          return (flags & kAnyBackward) != 0;
        });
    for (int stage = 0; stage < schedule_.stages() && !flaw_; ++stage) {
      cell_ = {.rank = schedule_.owner(stage), .step = -1};
      for (int m = 0; m < schedule_.microbatches && !flaw_; ++m)
        check_complete(stage, m, evaluation);
      const Whole& whole = whole_[static_cast<size_t>(stage)];
      if (whole.gathered)
        fail("stage ", stage, " is never resharded");
      if (!evaluation && !whole.reduced && (whole.sharded || any_reduced_))
        fail(to_string({Kind::ReduceGrad, stage}), " is missing");
    }
  }

  void check_complete(int stage, int m, bool evaluation) {
    const uint16_t flags = seen(stage, m);
    const auto miss = [&](Kind kind) {
      fail(to_string({kind, stage, m}), " is missing");
    };
    if ((flags & bit(Kind::Forward)) == 0)
      return miss(Kind::Forward);
    if (!evaluation && (flags & kInputDone) == 0)
      return miss(Kind::Backward);
    if ((flags & bit(Kind::InputGrad)) != 0 && (flags & bit(Kind::WeightGrad)) == 0)
      return miss(Kind::WeightGrad);
    if (!schedule_.lowered)
      return;
    const auto remote = [&](const std::vector<int>& others) {
      return std::any_of(
          others.begin(), others.end(), [this](int s) { return !is_local(s); });
    };
    if (remote(graph_.after(stage)) && (flags & bit(Kind::SendForward)) == 0)
      return miss(Kind::SendForward);
    if (!evaluation && remote(graph_.before(stage)) &&
        (flags & bit(Kind::SendBackward)) == 0)
      return miss(Kind::SendBackward);
  }

  const Schedule& schedule_;
  const StageGraph graph_;
  std::vector<uint16_t> seen_;
  std::vector<Whole> whole_;
  bool any_reduced_ = false;
  TableCell cell_;
  std::optional<Flaw> flaw_;
};

// What no cell is to blame for.
std::optional<Flaw> check_shape(const Schedule& schedule) {
  const auto flaw = [](const std::string& what) {
    return Flaw{.cell = {.rank = -1, .step = -1}, .what = what};
  };
  if (schedule.ranks() == 0 || schedule.stages() == 0 || schedule.microbatches < 1)
    return flaw(text(
        "it has ",
        schedule.ranks(),
        " ranks, ",
        schedule.stages(),
        " stages and ",
        schedule.microbatches,
        " microbatches"));
  for (int stage = 0; stage < schedule.stages(); ++stage)
    if (schedule.owner(stage) < 0 || schedule.owner(stage) >= schedule.ranks())
      return flaw(text("stage ", stage, " belongs to rank ", schedule.owner(stage)));
  // A wild number in a small file must not take memory.
  const int64_t forwards = int64_t{schedule.stages()} * schedule.microbatches;
  if (forwards / 2 > schedule.size())
    return flaw(text(
        schedule.size(),
        " actions are too few for ",
        schedule.stages(),
        " stages with ",
        schedule.microbatches,
        " microbatches, which count from 0 without gaps"));
  return std::nullopt;
}

[[noreturn]] void refuse(const Schedule& schedule, const Flaw& flaw) {
  std::string where, table;
  if (flaw.cell.rank >= 0) {
    const auto& list = schedule.actions[static_cast<size_t>(flaw.cell.rank)];
    table = text("\n", table_around(schedule, flaw.cell));
    where = text(" at rank ", flaw.cell.rank);
    if (flaw.cell.step >= 0)
      where += text(
          ", step ",
          flaw.cell.step,
          ", ",
          to_string(list[static_cast<size_t>(flaw.cell.step)]));
  }
  throw InvalidArgument(text(
      "[sched] expected a complete schedule in order, got ",
      escaped(schedule.name),
      " with a flaw",
      where,
      ": ",
      flaw.what,
      "; correct it",
      table));
}

}  // namespace

std::optional<Flaw> find_flaw(const Schedule& schedule) {
  if (auto flaw = check_shape(schedule))
    return flaw;
  return Validator(schedule).run();
}

void validate(const Schedule& schedule) {
  if (const auto flaw = find_flaw(schedule))
    refuse(schedule, *flaw);
}

void check_places(const Schedule& schedule) {
  if (const auto flaw = check_shape(schedule))
    refuse(schedule, *flaw);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const auto& list = schedule.actions[static_cast<size_t>(rank)];
    for (size_t i = 0; i < list.size(); ++i)
      for_each_half(list[i], [&](const Action& half) {
        if (half.kind() == Kind::Bubble)
          return;
        if (const std::string wrong = misplaced(schedule, half, rank); !wrong.empty())
          refuse(
              schedule,
              {.cell = {.rank = rank, .step = static_cast<int64_t>(i)}, .what = wrong});
      });
  }
}

}  // namespace trireme::sched
