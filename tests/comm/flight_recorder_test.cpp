// The rings of calls, and the files that they become when a job stops.
#include "trireme/comm/flight_recorder.h"

#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "scopes.h"
#include "trireme/comm/collective.h"
#include "trireme/comm/flight_file.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::LogScope;
using testing::ScratchFolder;
using testing::VariableScope;

// The rings of `size` ranks, and a recorder for any of them.
class Rings {
 public:
  explicit Rings(int size)
      : size_(size), entries_(kFlightEntries * static_cast<size_t>(size)) {}
  FlightRecorder recorder(int rank, const std::string& folder = "") {
    return FlightRecorder(
        reinterpret_cast<std::byte*>(entries_.data()), rank, size_, folder, nullptr);
  }
  // The entry of a ticket of a rank.
  const FlightEntry& entry(int rank, uint64_t ticket) const {
    return entries_
        [static_cast<size_t>(rank) * kFlightEntries + ticket % kFlightEntries];
  }

 private:
  int size_;
  std::vector<FlightEntry> entries_;
};

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST(FlightRecorder, HasMemoryOfItsOwnWhereNobodySharesOne) {
  const ScratchFolder folder;
  const auto recorder = make_own_recorder(2, 5, folder.path().string());
  recorder->begin({.sequence = 7}).done();
  recorder->dump(2, "a test stops here");
  EXPECT_EQ(names_in(folder.path()), Names{"rank_2.json"});
}

TEST(FlightRecorder, FitsAnEntryIntoACacheLine) {
  EXPECT_EQ(sizeof(FlightEntry), 64U);
  EXPECT_EQ(kFlightRingBytes, 65536U);
}

TEST(FlightRecorder, FollowsACall) {
  Rings rings(2);
  FlightRecorder recorder = rings.recorder(1);
  const FlightEntry& entry = rings.entry(1, 1);
  EXPECT_EQ(entry.ticket.load(), 0U);
  {
    auto record = recorder.begin(
        {.kind = FlightKind::Receive,
         .what = 5,
         .group = 7,
         .sequence = 9,
         .peer = 3,
         .tag = -4});
    EXPECT_EQ(entry.ticket.load(), 1U);
    EXPECT_EQ(entry.state.load(), FlightState::Started);
    EXPECT_EQ(entry.kind, FlightKind::Receive);
    EXPECT_EQ(entry.what, 5U);
    EXPECT_EQ(entry.group, 7U);
    EXPECT_EQ(entry.sequence, 9U);
    EXPECT_EQ(entry.peer, 3);
    EXPECT_EQ(entry.tag, -4);
    EXPECT_GT(entry.started_ns, 0);
    EXPECT_EQ(entry.ended_ns.load(), 0);
    record.set_what(640);
    EXPECT_EQ(entry.what, 640U);
    record.done();
    EXPECT_EQ(entry.state.load(), FlightState::Done);
    EXPECT_GE(entry.ended_ns.load(), entry.started_ns);
  }
  EXPECT_EQ(entry.state.load(), FlightState::Done);  // its end is no failure
  EXPECT_EQ(rings.entry(0, 1).ticket.load(), 0U);    // nobody else's ring
}

TEST(FlightRecorder, TakesACallWithoutAnEndForFailed) {
  Rings rings(1);
  FlightRecorder recorder = rings.recorder(0);
  try {
    const auto record = recorder.begin({});
    throw TimeoutError("late");
  } catch (const TimeoutError&) {
  }
  EXPECT_EQ(rings.entry(0, 1).state.load(), FlightState::Failed);
  EXPECT_GT(rings.entry(0, 1).ended_ns.load(), 0);
}

TEST(FlightRecorder, KeepsTheLast1024Calls) {
  Rings rings(1);
  FlightRecorder recorder = rings.recorder(0);
  constexpr uint64_t kCalls = kFlightEntries + 10;
  for (uint64_t i = 1; i <= kCalls; ++i)
    recorder.begin({.sequence = static_cast<uint32_t>(i)}).done();
  for (uint64_t ticket = 11; ticket <= kCalls; ++ticket) {
    EXPECT_EQ(rings.entry(0, ticket).ticket.load(), ticket);
    EXPECT_EQ(rings.entry(0, ticket).sequence, ticket);
  }
}

// A message may be waited for while a thousand other calls come and go.
TEST(FlightRecorder, LeavesTheCallThatTookAnOldOnesPlace) {
  Rings rings(1);
  FlightRecorder recorder = rings.recorder(0);
  auto old = recorder.begin({.kind = FlightKind::Receive, .what = 1});
  for (size_t i = 1; i < kFlightEntries; ++i)
    recorder.begin({}).done();
  auto young = recorder.begin({.what = 77});
  const FlightEntry& entry = rings.entry(0, 1 + kFlightEntries);
  old.set_what(5);
  old.done();
  EXPECT_EQ(entry.state.load(), FlightState::Started);
  EXPECT_EQ(entry.ended_ns.load(), 0);
  EXPECT_EQ(entry.what, 77U);
  young.done();
  EXPECT_EQ(entry.state.load(), FlightState::Done);
}

TEST(FlightRecorder, GivesThreadsTicketsOfTheirOwn) {
  Rings rings(1);
  FlightRecorder recorder = rings.recorder(0);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&recorder, t] {
      for (uint32_t i = 0; i < 200; ++i)
        recorder.begin({.group = t, .sequence = i}).done();
    });
  for (std::thread& thread : threads)
    thread.join();
  std::set<std::pair<uint32_t, uint32_t>> calls;
  for (uint64_t ticket = 1; ticket <= 800; ++ticket) {
    EXPECT_EQ(rings.entry(0, ticket).ticket.load(), ticket);
    EXPECT_EQ(rings.entry(0, ticket).state.load(), FlightState::Done);
    calls.emplace(rings.entry(0, ticket).group, rings.entry(0, ticket).sequence);
  }
  EXPECT_EQ(calls.size(), 800U);
}

// ---- the file
// --------------------------------------------------------------------------

TEST(FlightRecorder, WritesWhatItsRankDid) {
  const LogScope log;
  const ScratchFolder folder;
  Rings rings(3);
  FlightRecorder recorder = rings.recorder(2, folder.path().string());
  const Collective call{
      .kind = CollectiveKind::AllReduce, .dtype = c10::ScalarType::Float, .count = 4};
  recorder.begin({.what = signature(call), .group = 8, .sequence = 6}).done();
  { const auto failed = recorder.begin({.sequence = 7}); }
  const auto open = recorder.begin(
      {.kind = FlightKind::Send, .what = 640, .sequence = 2, .peer = 1, .tag = -3});
  recorder.dump(2, "[comm] rank 0 failed: \"a leak\"\n\xff");
  EXPECT_EQ(names_in(folder.path()), Names{"rank_2.json"});
  const FlightFile got = load_flight(folder.path()).at(0);
  EXPECT_EQ(got.rank, 2);
  EXPECT_EQ(got.size, 3);
  EXPECT_EQ(got.written_by, 2);
  EXPECT_GE(got.written_ns, rings.entry(2, 3).started_ns);
  EXPECT_EQ(got.reason, "[comm] rank 0 failed: \"a leak\"\n\xef\xbf\xbd");
  ASSERT_EQ(got.calls.size(), 3U);
  EXPECT_EQ(got.calls[0].ticket, 1U);
  EXPECT_EQ(got.calls[0].kind, FlightKind::Collective);
  EXPECT_EQ(got.calls[0].state, FlightState::Done);
  EXPECT_EQ(got.calls[0].call, "all_reduce sum float32[4]");
  EXPECT_EQ(got.calls[0].group, 8U);
  EXPECT_EQ(got.calls[0].sequence, 6U);
  EXPECT_EQ(got.calls[0].started_ns, rings.entry(2, 1).started_ns);
  EXPECT_EQ(got.calls[0].ended_ns, rings.entry(2, 1).ended_ns.load());
  EXPECT_EQ(got.calls[1].state, FlightState::Failed);
  EXPECT_EQ(got.calls[1].call, "barrier");
  EXPECT_EQ(got.calls[2].kind, FlightKind::Send);
  EXPECT_EQ(got.calls[2].state, FlightState::Started);
  EXPECT_EQ(got.calls[2].bytes, 640);
  EXPECT_EQ(got.calls[2].peer, 1);
  EXPECT_EQ(got.calls[2].tag, -3);
  EXPECT_EQ(got.calls[2].ended_ns, 0);
}

TEST(FlightRecorder, WritesAFullRingInOrder) {
  const LogScope log;
  const ScratchFolder folder;
  Rings rings(1);
  FlightRecorder recorder = rings.recorder(0, folder.path().string());
  for (uint32_t i = 1; i <= 3 * kFlightEntries / 2; ++i)
    recorder.begin({.sequence = i}).done();
  recorder.dump(0, "");
  const FlightFile got = load_flight(folder.path()).at(0);
  ASSERT_EQ(got.calls.size(), kFlightEntries);
  for (size_t i = 0; i < kFlightEntries; ++i)
    EXPECT_EQ(got.calls[i].sequence, kFlightEntries / 2 + 1 + i);
}

TEST(FlightRecorder, WritesForARankThatCannot) {
  const LogScope log;
  const ScratchFolder folder;
  Rings rings(2);
  FlightRecorder dead = rings.recorder(0, folder.path().string());
  dead.begin({.sequence = 3}).done();
  const FlightRecorder survivor = rings.recorder(1, folder.path().string());
  survivor.dump(0, "rank 0 is dead");
  const FlightFile got = load_flight(folder.path()).at(0);
  EXPECT_EQ(got.rank, 0);
  EXPECT_EQ(got.written_by, 1);
  ASSERT_EQ(got.calls.size(), 1U);
  EXPECT_EQ(got.calls[0].sequence, 3U);
}

TEST(FlightRecorder, PrefersWhatARankWroteOfItself) {
  const LogScope log;
  const ScratchFolder folder;
  Rings rings(2);
  const FlightRecorder own = rings.recorder(0, folder.path().string());
  const FlightRecorder other = rings.recorder(1, folder.path().string());
  const auto reason = [&] { return load_flight(folder.path()).at(0).reason; };
  own.dump(0, "by itself");
  other.dump(0, "by another");
  EXPECT_EQ(reason(), "by itself");
  own.dump(0, "by itself again");
  EXPECT_EQ(reason(), "by itself again");
  std::filesystem::remove(folder.path() / "rank_0.json");
  other.dump(0, "by another");
  EXPECT_EQ(reason(), "by another");
  own.dump(0, "by itself");
  EXPECT_EQ(reason(), "by itself");
  EXPECT_EQ(names_in(folder.path()), Names{"rank_0.json"});
}

TEST(FlightRecorder, ForgetsTheRecordOfAnEarlierJob) {
  const LogScope log;
  const ScratchFolder folder;
  folder.write("rank_0.json", "an earlier job");
  folder.write("rank_1.json", "an earlier job");
  Rings rings(2);
  const FlightRecorder own = rings.recorder(0, folder.path().string());
  EXPECT_EQ(names_in(folder.path()), Names{"rank_1.json"});  // not ours to take away
}

TEST(FlightRecorder, TellsOnceWhereTheRecordsAre) {
  const LogScope log;
  const ScratchFolder parent;
  const std::string folder = parent.path() / "a" / "b";
  Rings rings(2);
  const FlightRecorder recorder = rings.recorder(0, folder);
  recorder.dump(0, "");
  recorder.dump(1, "");
  recorder.dump(0, "");
  EXPECT_EQ(names_in(folder), (Names{"rank_0.json", "rank_1.json"}));
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_TRUE(contains(
      log.lines()[0],
      " is in " + folder + "; read it with: trireme doctor --flight " + folder));
}

TEST(FlightRecorder, WritesNothingWithoutAFolder) {
  const LogScope log;
  Rings rings(1);
  rings.recorder(0).dump(0, "reason");
  EXPECT_TRUE(log.lines().empty());
}

TEST(FlightRecorder, TakesAFolderBelowTheCurrentOne) {
  const LogScope log;
  const ScratchFolder parent;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(parent.path());
  Rings rings(1);
  rings.recorder(0, "flight").dump(0, "");
  rings.recorder(0, "slash/").dump(0, "");
  std::filesystem::current_path(before);
  EXPECT_EQ(names_in(parent.path() / "flight"), Names{"rank_0.json"});
  EXPECT_EQ(names_in(parent.path() / "slash"), Names{"rank_0.json"});
}

TEST(FlightRecorder, OnlyLogsWhenItCannotWrite) {
  const LogScope log;
  const ScratchFolder parent;
  const auto file = parent.path() / "file";
  std::ofstream(file) << "in the way";
  Rings rings(1);
  rings.recorder(0, file.string()).dump(0, "");
  rings.recorder(0, (file / "below").string()).dump(0, "");
  ASSERT_EQ(log.lines().size(), 2U);
  for (const std::string& line : log.lines()) {
    EXPECT_TRUE(contains(line, "[trireme comm] warn: no flight record of rank 0: "));
    EXPECT_TRUE(contains(line, file.string()));
  }
}

TEST(FlightRecorder, LeavesNoPartOfAFileBehind) {
  const LogScope log;
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path() / "rank_0.json" / "in the way");
  Rings rings(1);
  rings.recorder(0, folder.path().string()).dump(0, "");
  EXPECT_EQ(names_in(folder.path()), Names{"rank_0.json"});
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_TRUE(contains(log.lines()[0], "no flight record of rank 0"));
}

// Readers see one whole record or another, never half of one.
TEST(FlightRecorder, ReplacesARecordAtOnce) {
  const LogScope log;
  const ScratchFolder folder;
  Rings rings(1);
  FlightRecorder recorder = rings.recorder(0, folder.path().string());
  for (int i = 1; i <= 300; ++i)
    recorder.begin({.sequence = 1}).done();
  recorder.dump(0, "");
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i)
      recorder.dump(0, std::string(static_cast<size_t>(i) * 100, 'x'));
  });
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(load_flight(folder.path()).at(0).calls.size(), 300U);
  writer.join();
}

// ---- the folder
// ------------------------------------------------------------------------

TEST(FlightRecorder, TakesTheFolderFromTheVariable) {
  const VariableScope variable("TRIREME_FLIGHT_DIR", "/some/where");
  EXPECT_EQ(flight_folder("job"), "/some/where");
}

TEST(FlightRecorder, GoesNowhereWhenTheVariableIsEmpty) {
  const VariableScope variable("TRIREME_FLIGHT_DIR", "");
  EXPECT_EQ(flight_folder("job"), "");
}

TEST(FlightRecorder, HasAFolderForEveryUserAndJob) {
  const VariableScope variable("TRIREME_FLIGHT_DIR", std::nullopt);
  const std::string mine = text("/trireme-flight-", geteuid(), "/job");
  {
    const VariableScope temporary("TMPDIR", "/elsewhere");
    EXPECT_EQ(flight_folder("job"), "/elsewhere" + mine);
  }
  for (const auto& unset :
       {std::optional<std::string>(), std::optional(std::string())}) {
    const VariableScope temporary("TMPDIR", unset);
    EXPECT_EQ(flight_folder("job"), "/tmp" + mine);
  }
}

TEST(FlightRecorder, KeepsOthersOutOfItsOwnCorner) {
  const LogScope log;
  const ScratchFolder parent;
  const VariableScope variable("TRIREME_FLIGHT_DIR", std::nullopt);
  const VariableScope temporary("TMPDIR", parent.path().string());
  Rings rings(1);
  rings.recorder(0, flight_folder("job")).dump(0, "");
  const auto root = parent.path() / text("trireme-flight-", geteuid());
  EXPECT_EQ(names_in(root / "job"), Names{"rank_0.json"});
  EXPECT_EQ(
      std::filesystem::status(root).permissions(), std::filesystem::perms::owner_all);
}

TEST(FlightRecorder, DeletesNothingThroughALinkInTheTemporaryFolder) {
  const ScratchFolder parent, elsewhere;
  const VariableScope variable("TRIREME_FLIGHT_DIR", std::nullopt);
  const VariableScope temporary("TMPDIR", parent.path().string());
  std::filesystem::create_directories(elsewhere.path() / "job");
  elsewhere.write("job/rank_0.json", "precious");
  elsewhere.write("job/rank_1.json", "precious");
  std::filesystem::create_directory_symlink(
      elsewhere.path(), parent.path() / text("trireme-flight-", geteuid()));
  Rings rings(1);
  const FlightRecorder recorder = rings.recorder(0, flight_folder("job"));
  EXPECT_EQ(names_in(elsewhere.path() / "job"), (Names{"rank_0.json", "rank_1.json"}));
}

// In a folder that all may write to, somebody could have put a link before us.
TEST(FlightRecorder, DoesNotFollowALinkInTheTemporaryFolder) {
  const ScratchFolder parent, elsewhere;
  const VariableScope variable("TRIREME_FLIGHT_DIR", std::nullopt);
  const VariableScope temporary("TMPDIR", parent.path().string());
  const auto root = parent.path() / text("trireme-flight-", geteuid());
  std::filesystem::create_directory_symlink(elsewhere.path(), root);
  const LogScope log;
  Rings rings(1);
  rings.recorder(0, flight_folder("job")).dump(0, "");
  EXPECT_TRUE(names_in(elsewhere.path()).empty());
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_TRUE(contains(
      log.lines()[0], "expected " + root.string() + " to be a folder of this user"));
}

}  // namespace
}  // namespace trireme::comm
