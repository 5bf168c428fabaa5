// Whether a file is a schedule that cannot lock up.
#include "schedule_helpers.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/lower.h"

namespace trireme::cli {
namespace {

TEST_F(ScheduleFiles, AreChecked) {
  const auto schedule = sched::generate("1F1B", {.ranks = 2, .microbatches = 3});
  const std::string plain = write("plain.csv", sched::to_csv(schedule));
  const Answer ok = ask({"check", plain});
  EXPECT_EQ(ok.code, 0) << ok.err;
  EXPECT_EQ(
      ok.out,
      "ok: 2 ranks, 2 stages, 3 microbatches; lowered, it cannot lock up with "
      "unbounded "
      "buffers; at most 3 messages on a channel, 2 live activations on a rank\n");
  EXPECT_EQ(ask({"check", plain, "--lowered"}).code, 2);
  const std::string lowered = write("low.csv", sched::to_csv(sched::lower(schedule)));
  EXPECT_EQ(ask({"check", lowered, "--lowered", "--buffers", "rendezvous"}).code, 0);
  const std::string late = write(
      "late.csv",
      "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1\n");
  const Answer locks = ask({"check", late, "--buffers", "rendezvous"});
  EXPECT_EQ(locks.code, 1);
  EXPECT_TRUE(
      locks.out.starts_with("locks up: with rendezvous rank 0 waits at 0SEND_F1"))
      << locks.out;
  EXPECT_TRUE(contains(locks.out, "with channels that hold 1 message it does not"));
  EXPECT_EQ(ask({"check", late, "--buffers", "1"}).code, 0);
  EXPECT_EQ(ask({"check", late}).code, 0);
  for (const char* buffers : {"-1", "x", "", "1.5", "99999999999"})
    EXPECT_EQ(ask({"check", late, "--buffers", buffers}).code, 2) << buffers;
}

TEST_F(ScheduleFiles, EvaluationKeepsNoActivations) {
  const auto schedule = sched::generate("ForwardOnly", {.ranks = 2, .microbatches = 5});
  const Answer answer = ask({"check", write("eval.csv", sched::to_csv(schedule))});
  EXPECT_TRUE(contains(answer.out, ", 1 live activation on a rank")) << answer.out;
}

}  // namespace
}  // namespace trireme::cli
