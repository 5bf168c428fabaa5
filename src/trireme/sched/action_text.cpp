#include "trireme/sched/action_text.h"

#include <array>
#include <charconv>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::sched {
namespace {

constexpr std::array<std::string_view, kActionKinds> kTokens = {
    "",
    "F",
    "B",
    "I",
    "W",
    "SEND_F",
    "RECV_F",
    "SEND_B",
    "RECV_B",
    "UNSHARD",
    "RESHARD",
    "REDUCE_GRAD",
    "OVERLAP_F_B"};

void append_number(std::string& out, int number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end.ptr);
}

void append_simple(std::string& out, const Action& action) {
  append_number(out, action.stage());
  out += token(action.kind());
  if (has_microbatch(action.kind()))
    append_number(out, action.microbatch());
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Reads one action from left to right, and throws a TextFlaw where there is none.
class ActionReader {
 public:
  explicit ActionReader(std::string_view text) : text_(text) {
    while (!text_.empty() && is_blank(text_.back()))
      text_.remove_suffix(1);
    while (at_ < text_.size() && is_blank(text_[at_]))
      ++at_;
  }

  bool done() const { return at_ == text_.size(); }

  Action action() {
    const Action result = take('(') ? overlap() : simple();
    if (!done())
      refuse("the end of the action");
    return result;
  }

 private:
  Action simple() {
    const int stage = number("a stage");
    const ActionKind which = kind();
    if (which == ActionKind::Overlap)
      refuse("an overlap as (0F7;7B3)OVERLAP_F_B");
    return has_microbatch(which) ? Action(which, stage, number("a microbatch"))
                                 : Action(which, stage);
  }

  Action overlap() {
    const Action forward = half(ActionKind::Forward, "a forward as 0F7");
    expect(';', "a ;");
    const Action backward = half(ActionKind::Backward, "a backward as 7B3");
    expect(')', "a )");
    const size_t start = at_;
    if (kind() != ActionKind::Overlap) {
      at_ = start;
      refuse("OVERLAP_F_B");
    }
    return Action::overlap(
        {forward.stage(), forward.microbatch()},
        {backward.stage(), backward.microbatch()});
  }

  Action half(ActionKind wanted, std::string_view what) {
    const size_t start = at_;
    const Action action = simple();
    if (action.kind() != wanted) {
      at_ = start;
      refuse(what);
    }
    return action;
  }

  int number(std::string_view what) {
    const char* begin = text_.data() + at_;
    int value = 0;
    const auto [end, error] =
        std::from_chars(begin, text_.data() + text_.size(), value);
    // from_chars would take "-0", and zeros in front.
    const bool plain =
        error == std::errc() && *begin != '-' && (*begin != '0' || end == begin + 1);
#ifdef TRIREME_PLANTED_BUG  // the fuzzer must find it
    const bool small = true;
#else
    const bool small = value < Action::kMost;
#endif
    if (!plain || !small)
      refuse(trireme::text(what, " from 0 to ", Action::kMost - 1));
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  // The longest token that fits: SEND_F is no S, and REDUCE_GRAD no R.
  ActionKind kind() {
    size_t best = 0;
    for (size_t i = 1; i < kTokens.size(); ++i)
      if (kTokens[i].size() > kTokens[best].size() &&
          text_.substr(at_).starts_with(kTokens[i]))
        best = i;
    if (best == 0)
      refuse(
          "F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD or "
          "REDUCE_GRAD");
    at_ += kTokens[best].size();
    return static_cast<ActionKind>(best);
  }

  bool take(char c) {
    const bool there = !done() && text_[at_] == c;
    at_ += there ? 1 : 0;
    return there;
  }

  void expect(char c, std::string_view what) {
    if (!take(c))
      refuse(what);
  }

  [[noreturn]] void refuse(std::string_view wanted) const {
    throw TextFlaw{
        .column = at_ + 1,
        .what = trireme::text(
            "expected ",
            wanted,
            ", got ",
            done() ? std::string("the end") : in_quotes(text_.substr(at_)),
            "; actions look like 2F0, 3SEND_F1 or (0F7;7B3)OVERLAP_F_B")};
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string_view token(ActionKind kind) {
  return kTokens[static_cast<size_t>(kind)];
}

void append(std::string& out, const Action& action) {
  switch (action.kind()) {
    case ActionKind::Bubble:
      return;
    case ActionKind::Overlap:
      out += '(';
      append_simple(out, action.forward_half());
      out += ';';
      append_simple(out, action.backward_half());
      out += ')';
      out += token(ActionKind::Overlap);
      return;
    default:
      append_simple(out, action);
  }
}

std::string to_string(const Action& action) {
  std::string out;
  append(out, action);
  return out;
}

std::variant<Action, TextFlaw> read_action(std::string_view text) try {
  ActionReader reader(text);
  return reader.done() ? Action() : reader.action();
} catch (TextFlaw& flaw) {
  return std::move(flaw);
}

Action parse_action(std::string_view text) {
  const auto read = read_action(text);
  if (const auto* flaw = std::get_if<TextFlaw>(&read))
    throw InvalidArgument(trireme::text(
        "[sched] ", in_quotes(text), ", column ", flaw->column, ": ", flaw->what));
  return std::get<Action>(read);
}

}  // namespace trireme::sched
