// Action: one thing that a rank does for a stage. A schedule is lists of them.
#pragma once
#include <cstdint>

namespace trireme::sched {

/// What is done. The text of each is torch's (action_text.h).
enum class ActionKind : uint8_t {
  Bubble,           // nothing: an empty cell of a table
  Forward,          // F
  Backward,         // B: both gradients at once
  InputGrad,        // I: the gradient of the input only
  WeightGrad,       // W: the gradient of the weights, after its I
  SendForward,      // SEND_F: the output goes to the next stage
  ReceiveForward,   // RECV_F: the input comes from the stage before
  SendBackward,     // SEND_B: the input's gradient goes to the stage before
  ReceiveBackward,  // RECV_B: the output's gradient comes from the next stage
  Unshard,          // UNSHARD: the whole parameters of the stage are gathered
  Reshard,          // RESHARD: and freed again
  ReduceGrad,       // REDUCE_GRAD: the gradients of the step are complete
  Overlap,          // OVERLAP_F_B: a forward and a backward of two stages at once
};

inline constexpr int kActionKinds = 13;

/// A small value: kind, stage and microbatch; an overlap holds two of these.
///
///     Action a(ActionKind::Forward, 2, 0);                 // 2F0
///     Action b = Action::overlap({0, 7}, {7, 3});          // (0F7;7B3)OVERLAP_F_B
class Action {
 public:
  /// Stages and microbatches are below this; so a number from a file can be checked.
  static constexpr int kMost = 1 << 27;

  /// A stage, and a microbatch of it.
  struct Place {
    int stage = 0;
    int microbatch = 0;
    bool operator==(const Place&) const = default;
  };

  /// A bubble.
  constexpr Action() = default;
  /// Kinds without a microbatch (Unshard, Reshard, ReduceGrad) leave it at -1.
  constexpr Action(ActionKind kind, int stage, int microbatch = -1)
      : kind_and_stage_(
            static_cast<uint32_t>(stage) << 4 | static_cast<uint32_t>(kind)),
        microbatch_(microbatch) {}
  static constexpr Action overlap(Place forward, Place backward) {
    Action both(ActionKind::Overlap, forward.stage, forward.microbatch);
    both.other_ = backward;
    return both;
  }

  constexpr ActionKind kind() const {
    return static_cast<ActionKind>(kind_and_stage_ & 15U);
  }
  /// Of an overlap: its forward's.
  constexpr int stage() const { return static_cast<int>(kind_and_stage_ >> 4); }
  constexpr int microbatch() const { return microbatch_; }

  /// The two halves of an overlap, as actions of their own.
  constexpr Action forward_half() const {
    return {ActionKind::Forward, stage(), microbatch_};
  }
  constexpr Action backward_half() const {
    return {ActionKind::Backward, other_.stage, other_.microbatch};
  }

  bool operator==(const Action&) const = default;

 private:
  uint32_t kind_and_stage_ = 0;
  int32_t microbatch_ = -1;
  Place other_{-1, -1};
};
static_assert(sizeof(Action) == 16, "25 million actions have to fit into 1 GiB");

/// Calls `visit` with the action, or with the two halves of an overlap.
template <class Visit>
constexpr void for_each_half(const Action& action, Visit&& visit) {
  if (action.kind() == ActionKind::Overlap) {
    visit(action.forward_half());
    visit(action.backward_half());
  } else {
    visit(action);
  }
}

/// F, B, I, W and overlaps: what a compute-only schedule consists of, beside bubbles.
constexpr bool is_compute(ActionKind kind) {
  return (kind >= ActionKind::Forward && kind <= ActionKind::WeightGrad) ||
         kind == ActionKind::Overlap;
}
/// B and I: what the stage before waits for.
constexpr bool gives_input_grad(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::InputGrad;
}
/// B and W: the end of a microbatch on its stage.
constexpr bool gives_weight_grad(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::WeightGrad;
}
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::SendForward || kind == ActionKind::SendBackward;
}
constexpr bool is_receive(ActionKind kind) {
  return kind == ActionKind::ReceiveForward || kind == ActionKind::ReceiveBackward;
}
/// Whether the kind stands for a microbatch; the others are for a stage as a whole.
constexpr bool has_microbatch(ActionKind kind) {
  return kind != ActionKind::Bubble && kind != ActionKind::Unshard &&
         kind != ActionKind::Reshard && kind != ActionKind::ReduceGrad;
}

}  // namespace trireme::sched
