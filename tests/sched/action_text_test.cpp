// Actions as text: exact both ways, and nothing else is taken.
#include "trireme/sched/action_text.h"

#include "helpers.h"

namespace trireme::sched {
namespace {

TEST(ActionText, PrintsAsTorchDoes) {
  EXPECT_EQ(to_string(Action(ActionKind::Forward, 2, 0)), "2F0");
  EXPECT_EQ(to_string(Action(ActionKind::SendForward, 3, 1)), "3SEND_F1");
  EXPECT_EQ(to_string(Action(ActionKind::Unshard, 1)), "1UNSHARD");
  EXPECT_EQ(to_string(Action(ActionKind::ReduceGrad, 12)), "12REDUCE_GRAD");
  EXPECT_EQ(to_string(Action::overlap({0, 7}, {7, 3})), "(0F7;7B3)OVERLAP_F_B");
  EXPECT_EQ(to_string(Action()), "");
}

TEST(ActionText, ReadsWhatItPrints) {
  for (const char* word :
       {"1F0",
        "2I1",
        "0W3",
        "0B3",
        "1UNSHARD",
        "3RESHARD",
        "2SEND_B2",
        "1RECV_F1",
        "5SEND_F0",
        "6RECV_B10",
        "4REDUCE_GRAD",
        "(0F7;7B3)OVERLAP_F_B",
        "134217727F134217727"})
    EXPECT_EQ(to_string(parse_action(word)), word);
}

TEST(ActionText, AllKindsComeBack) {
  for (int kind = 1; kind < kActionKinds - 1; ++kind) {
    const auto which = static_cast<ActionKind>(kind);
    const Action action =
        has_microbatch(which) ? Action(which, 17, 4) : Action(which, 17);
    EXPECT_EQ(parse_action(to_string(action)), action);
  }
}

TEST(ActionText, BlanksAroundAreNothing) {
  EXPECT_EQ(parse_action("  2F0\t\r"), Action(ActionKind::Forward, 2, 0));
  EXPECT_EQ(parse_action(" \t "), Action());
  EXPECT_EQ(parse_action(""), Action());
}

TEST(ActionText, RefusesEverythingElse) {
  for (const char* word :
       {"F",
        "2",
        "2F",
        "F0",
        "2f0",
        "2F0x",
        "2F0 1",
        "2 F0",
        "2F 0",
        "2X0",
        "2SEND_0",
        "2SEND_X0",
        "2RECV0",
        "2UNSHARD0",
        "2UNSHARD 0",
        "-2F0",
        "2F-1",
        "-0F0",
        "0F-0",
        "+1F0",
        "1F+0",
        "01F0",
        "1F00",
        "1e3F0",
        "0x1F0",
        "134217728F0",
        "0F134217728",
        "99999999999999999999F0",
        "0F99999999999999999999",
        "OVERLAP_F_B",
        "0OVERLAP_F_B0",
        "0OVERLAP_F_B",
        "(0F7;7B3)",
        "(0F7;7B3)F",
        "(0F7;7B3)OVERLAP_F_B0",
        "(0F7,7B3)OVERLAP_F_B",
        "(0F7)OVERLAP_F_B",
        "(0F7;7B3;1F1)OVERLAP_F_B",
        "(0B7;7F3)OVERLAP_F_B",
        "(0F7;7F3)OVERLAP_F_B",
        "(0F7;7I3)OVERLAP_F_B",
        "(0F7;7SEND_F3)OVERLAP_F_B",
        "((0F1;1B2)OVERLAP_F_B;7B3)OVERLAP_F_B",
        "(0F7;(0F1;1B2)OVERLAP_F_B)OVERLAP_F_B",
        "(",
        "()",
        "(;)OVERLAP_F_B",
        "2F0,3F0",
        "2F0;3F0"})
    EXPECT_TRUE(contains(refusal([&] { parse_action(word); }), ": expected ")) << word;
}

TEST(ActionText, RefusalsNameTheColumn) {
  EXPECT_TRUE(contains(
      refusal([] { parse_action("12F0rubbish"); }),
      "[sched] \"12F0rubbish\", column 5: expected the end of the action, got "
      "\"rubbish\"; actions look like 2F0, 3SEND_F1 or (0F7;7B3)OVERLAP_F_B"));
  EXPECT_TRUE(contains(
      refusal([] { parse_action("(0F7;7F3)OVERLAP_F_B"); }),
      "column 6: expected a backward as 7B3, got \"7F3)OVERLAP_F_B\""));
  EXPECT_TRUE(contains(
      refusal([] { parse_action("2F"); }),
      "column 3: expected a microbatch from 0 to 134217727, got the end"));
  const auto flaw = std::get<TextFlaw>(read_action("  1X0"));
  EXPECT_EQ(flaw.column, 4U);
  EXPECT_TRUE(flaw.what.starts_with("expected F, B, I, W, ")) << flaw.what;
}

TEST(ActionText, HoldsNoControlCharacters) {
  const std::string message = refusal([] { parse_action("2F0\x1b[31m\n"); });
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace trireme::sched
