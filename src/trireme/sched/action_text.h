// Actions as text, in torch's way of writing: 2F0, 3SEND_F1, (0F7;7B3)OVERLAP_F_B.
#pragma once
#include <string>
#include <string_view>
#include <variant>

#include "trireme/sched/action.h"

namespace trireme::sched {

/// "F", "SEND_F", …; empty for a bubble.
std::string_view token(ActionKind kind);

/// The text of an action; empty for a bubble.
std::string to_string(const Action& action);
/// The same at the end of `out`, for whole files.
void append(std::string& out, const Action& action);

/// What is wrong with a text, and at which of its columns, counted from 1.
struct TextFlaw {
  size_t column = 1;
  std::string what;
};

/// Reads exactly what append() writes, blanks around it allowed; blanks alone are a
/// bubble.
std::variant<Action, TextFlaw> read_action(std::string_view text);

/// The same, with InvalidArgument for a flaw.
Action parse_action(std::string_view text);

}  // namespace trireme::sched
