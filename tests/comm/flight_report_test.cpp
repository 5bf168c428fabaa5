// Each way in which ranks come apart gives its sentence, and agreement gives none.
#include "trireme/comm/flight_report.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

constexpr int64_t kSecond = 1000000000;
using Lines = std::vector<std::string>;

FlightCall collective(uint32_t sequence, const std::string& call, FlightState state) {
  return {
      .state = state,
      .sequence = sequence,
      .call = call,
      .started_ns = sequence * kSecond,
      .ended_ns = state == FlightState::Started ? 0 : sequence * kSecond + kSecond / 2};
}

FlightCall message(FlightKind kind, uint32_t sequence, int peer, FlightState state) {
  return {
      .kind = kind,
      .state = state,
      .sequence = sequence,
      .bytes = 64,
      .peer = peer,
      .tag = 3,
      .started_ns = sequence * kSecond};
}

// A rank whose first `done` calls ended well.
FlightFile rank_with(int rank, int size, uint32_t done) {
  FlightFile file{.rank = rank, .size = size, .written_by = rank, .reason = "why"};
  for (uint32_t i = 1; i <= done; ++i)
    file.calls.push_back(collective(i, "barrier", FlightState::Done));
  return file;
}

std::vector<FlightFile> world(int size, uint32_t done) {
  std::vector<FlightFile> files;
  for (int rank = 0; rank < size; ++rank)
    files.push_back(rank_with(rank, size, done));
  return files;
}

FlightReport report(std::vector<FlightFile> files) {
  for (FlightFile& file : files) {
    uint64_t ticket = file.calls.empty() ? 0 : file.calls.front().ticket;
    for (FlightCall& call : file.calls)
      call.ticket = ticket++;
  }
  return report_flight(files);
}

TEST(FlightReport, SaysThatRanksAgree) {
  const FlightReport all = report(world(3, 4));
  EXPECT_EQ(all.notes, Lines{"recorded reason of ranks 0 to 2: why"});
  EXPECT_EQ(all.findings, Lines{});
  EXPECT_EQ(
      to_text(all),
      "recorded reason of ranks 0 to 2: why\n"
      "the records agree: the ranks made the same calls and finished them\n");
}

TEST(FlightReport, NamesTheCallThatDiffers) {
  auto files = world(4, 16);
  for (FlightFile& file : files) {
    file.calls.push_back(collective(
        17,
        file.rank == 2 ? "broadcast float32[4] from rank 0"
                       : "all_reduce sum float32[1024]",
        FlightState::Failed));
    file.calls.push_back(
        collective(18, file.rank == 1 ? "barrier" : "reduce", FlightState::Failed));
  }
  EXPECT_EQ(
      report(files).findings,
      Lines{"call 17 of group world: rank 2 called broadcast float32[4] from rank 0, "
            "ranks "
            "0, 1 and 3 called all_reduce sum float32[1024]"});
}

TEST(FlightReport, NamesTheRankThatNeverCame) {
  auto files = world(4, 16);
  for (FlightFile& file : files)
    if (file.rank != 2) {
      FlightCall call =
          collective(17, "all_reduce sum float32[8]", FlightState::Failed);
      call.ended_ns = 16 * kSecond + kSecond / 2 + 3200000000;
      file.calls.push_back(call);
    }
  EXPECT_EQ(
      report(files).findings,
      (Lines{
          "rank 2 never came to call 17 of group world (all_reduce sum float32[8]); "
          "its last "
          "finished call is 16, 3.2 s before the end",
          "ranks 0, 1 and 3 did not finish call 17 of group world (all_reduce sum "
          "float32[8]), begun 2.7 s before the end"}));
}

TEST(FlightReport, KnowsThatEveryRankIsInTheWorld) {
  auto files = world(2, 1);
  files[1].calls.clear();
  EXPECT_EQ(
      report(files).findings,
      Lines{"rank 1 never came to call 1 of group world (barrier); it has finished no "
            "call "
            "of this group"});
}

TEST(FlightReport, ComparesOnlyMembersOfAGroup) {
  auto files = world(4, 1);
  for (const int rank : {0, 1}) {
    FlightCall call =
        collective(1, rank == 0 ? "barrier" : "reduce", FlightState::Failed);
    call.group = 0xabc;
    files[static_cast<size_t>(rank)].calls.push_back(call);
  }
  EXPECT_EQ(
      report(files).findings,
      Lines{"call 1 of group 0xabc: rank 0 called barrier, rank 1 called reduce"});
}

TEST(FlightReport, DoesNotMissWhatTheRingHasForgotten) {
  auto files = world(3, 40);
  files[0].calls.erase(files[0].calls.begin(), files[0].calls.begin() + 30);
  files[0].calls.front().ticket = 31;
  // Rank 1's calls of the world are all forgotten: nothing is known.
  files[1].calls = {message(FlightKind::Send, 1, 0, FlightState::Done)};
  files[1].calls.front().ticket = 5000;
  EXPECT_EQ(report(files).findings, Lines{});
}

TEST(FlightReport, ComparesOnlyWhatCameAfterRenewal) {
  auto files = world(2, 3);
  files[1].calls.push_back(collective(4, "reduce", FlightState::Failed));
  for (FlightFile& file : files)
    for (uint32_t i = 1; i <= 2; ++i) {
      FlightCall call = collective(i, "all_gather", FlightState::Done);
      call.started_ns += 100 * kSecond;
      call.ended_ns += 100 * kSecond;
      file.calls.push_back(call);
    }
  EXPECT_EQ(report(files).findings, Lines{});
}

TEST(FlightReport, ComparesRanksThatRenewedWithThoseThatMadeNoCallSince) {
  auto files = world(2, 3);
  FlightCall call = collective(1, "all_gather", FlightState::Failed);
  call.started_ns = call.ended_ns = 100 * kSecond;
  files[0].calls.push_back(call);
  EXPECT_EQ(
      report(files).findings.front(),
      "rank 1 never came to call 1 of group world (all_gather); it has finished no "
      "call of "
      "this group");
}

TEST(FlightReport, NamesMessagesThatDoNotCome) {
  auto files = world(2, 0);
  for (uint32_t i = 1; i <= 4; ++i) {
    files[0].calls.push_back(message(FlightKind::Send, i, 1, FlightState::Done));
    files[1].calls.push_back(message(FlightKind::Receive, i, 0, FlightState::Done));
  }
  EXPECT_EQ(report(files).findings, Lines{});
  files[1].calls.push_back(message(FlightKind::Receive, 5, 0, FlightState::Failed));
  EXPECT_EQ(
      report(files).findings,
      Lines{"rank 1 waits for message 5 from rank 0 (tag 3); rank 0 has sent 4"});
  // It came after all.
  files[1].calls.push_back(message(FlightKind::Receive, 5, 0, FlightState::Done));
  EXPECT_EQ(report(files).findings, Lines{});
}

TEST(FlightReport, NamesMessagesThatCannotLeave) {
  auto files = world(2, 0);
  files[0].calls.push_back(message(FlightKind::Send, 3, 1, FlightState::Started));
  files[0].calls.back().group = 0x1f;
  EXPECT_EQ(
      report(files).findings,
      Lines{"rank 0 cannot send message 3 to rank 1 (tag 3, group 0x1f, 64 bytes); "
            "rank 1 "
            "has received none"});
  files.pop_back();
  EXPECT_EQ(
      report(files).findings,
      Lines{"rank 0 cannot send message 3 to rank 1 (tag 3, group 0x1f, 64 bytes); "
            "there is "
            "no record of rank 1"});
}

TEST(FlightReport, NotesWhoIsMissingAndWhoDied) {
  auto files = world(6, 1);
  files[1].written_by = 0;
  files[1].reason = "because\n";
  files.resize(3);
  EXPECT_EQ(
      report(files).notes,
      (Lines{
          "recorded reason of rank 1: because\\n",
          "recorded reason of ranks 0 and 2: why",
          "no record of ranks 3 to 5 of 6",
          "the record of rank 1 was written by rank 0: it had died, or was busy "
          "elsewhere"}));
}

TEST(FlightReport, CountsFromTheTimeOfWriting) {
  auto files = world(2, 1);
  files[0].calls.push_back(collective(2, "barrier", FlightState::Started));
  files[0].written_ns = 62 * kSecond;
  EXPECT_EQ(
      report(files).findings,
      (Lines{
          "rank 1 never came to call 2 of group world (barrier); its last finished "
          "call is "
          "1, 60.5 s before the end",
          "rank 0 did not finish call 2 of group world (barrier), begun 60.0 s before "
          "the "
          "end"}));
}

TEST(FlightReport, NotesRecordsOfAnEarlierJob) {
  auto files = world(2, 1);
  files[0].written_ns = 1000 * kSecond;
  files[1].written_ns = 10 * kSecond;
  EXPECT_EQ(
      report(files).notes.back(),
      "the record of rank 1 is 990.0 s older than the newest: perhaps it is of an "
      "earlier "
      "job");
}

}  // namespace
}  // namespace trireme::comm
