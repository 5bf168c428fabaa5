// Records that the recorder wrote are read back whole; anything else is refused by
// name.
#include "trireme/comm/flight_file.h"

#include <fstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::comm {
namespace {

using testing::message_of;
using testing::ScratchFolder;

std::string record(int rank, int size, const std::string& calls = "") {
  return text(
      R"({"format": "trireme flight 1", "rank": )",
      rank,
      R"(, "size": )",
      size,
      R"(, "written_by": 0, "reason": "why", "calls": [)",
      calls,
      "]}");
}

const char* const kCollective =
    R"({"ticket": 7, "kind": "collective", "state": "failed", "group": 4294967295,
        "sequence": 3, "started_ns": 10, "ended_ns": 20, "call": "barrier"})";
const char* const kSend =
    R"({"ticket": 9, "kind": "send", "state": "done", "group": 0, "sequence": 1,
        "started_ns": 30, "ended_ns": 40, "bytes": 99, "peer": 1, "tag": -5})";

std::string replaced(std::string all, const std::string& from, const std::string& to) {
  return all.replace(all.find(from), from.size(), to);
}

TEST(FlightFile, ReadsARecord) {
  const FlightFile file =
      parse_flight(record(0, 2, text(kCollective, ", ", kSend)), "f.json");
  EXPECT_EQ(file.rank, 0);
  EXPECT_EQ(file.size, 2);
  EXPECT_EQ(file.reason, "why");
  ASSERT_EQ(file.calls.size(), 2U);
  EXPECT_EQ(file.calls[0].ticket, 7U);
  EXPECT_EQ(file.calls[0].kind, FlightKind::Collective);
  EXPECT_EQ(file.calls[0].state, FlightState::Failed);
  EXPECT_EQ(file.calls[0].group, 4294967295U);
  EXPECT_EQ(file.calls[0].sequence, 3U);
  EXPECT_EQ(file.calls[0].call, "barrier");
  EXPECT_EQ(file.calls[0].ended_ns, 20);
  EXPECT_EQ(file.calls[1].kind, FlightKind::Send);
  EXPECT_EQ(file.calls[1].bytes, 99);
  EXPECT_EQ(file.calls[1].peer, 1);
  EXPECT_EQ(file.calls[1].tag, -5);
}

TEST(FlightFile, KnowsWhenItWasWritten) {
  const std::string plain = record(0, 2);
  EXPECT_EQ(parse_flight(plain, "f").written_ns, 0);
  const auto dated = [&plain](const std::string& time) {
    return replaced(plain, "\"size\"", text("\"written_ns\": ", time, ", \"size\""));
  };
  EXPECT_EQ(parse_flight(dated("77"), "f").written_ns, 77);
  EXPECT_THROW(parse_flight(dated("\"now\""), "f"), InvalidArgument);
}

TEST(FlightFile, NamesTheFileAndTheMember) {
  const auto parse = [](const std::string& json) {
    return message_of<InvalidArgument>([&] { parse_flight(json, "f.json"); });
  };
  EXPECT_EQ(
      parse(replaced(record(0, 2, kSend), "99", "\"big\"")),
      "[comm] expected \"bytes\" of entry 1 to be a whole number from 0 to "
      "9223372036854775807 in the flight record f.json, got \"\"big\"\"; remove the "
      "file if "
      "it is none of Trireme's, or record again");
}

TEST(FlightFile, RefusesWhatIsNoRecord) {
  const std::string good = record(0, 2, text(kCollective, ", ", kSend));
  const std::vector<std::string> bad = {
      "",
      "\xff",
      "[]",
      "{}",
      "3",
      good.substr(0, good.size() - 1),
      replaced(good, "flight 1", "flight 2"),
      replaced(good, "\"rank\": 0", "\"rank\": 2"),
      replaced(good, "\"rank\": 0", "\"rank\": -1"),
      replaced(good, "\"size\": 2", "\"size\": 0"),
      replaced(good, "\"size\": 2", "\"size\": 1e3"),
      replaced(good, "\"size\": 2", "\"size\": 99999999999999999999"),
      replaced(good, "\"reason\": \"why\"", "\"reason\": null"),
      replaced(good, "\"calls\"", "\"call\""),
      replaced(good, "\"calls\": [", "\"calls\": [3, "),
      replaced(good, "\"ticket\": 7", "\"ticket\": 0"),
      replaced(good, "\"ticket\": 7", "\"ticket\": 9"),
      replaced(good, "\"ticket\": 7", "\"ticket\": 18446744073709551615"),
      replaced(good, "\"collective\"", "\"reduce\""),
      replaced(good, "\"failed\"", "3"),
      replaced(good, "4294967295", "4294967296"),
      replaced(good, "\"sequence\": 3", "\"sequence\": 0"),
      replaced(good, "\"started_ns\": 10", "\"started_ns\": -1"),
      replaced(good, "\"barrier\"", text('"', std::string(300, 'x'), '"')),
      replaced(good, "\"peer\": 1", "\"peer\": 2"),
      replaced(good, "\"tag\": -5", "\"tag\": [5]"),
  };
  for (const std::string& json : bad)
    EXPECT_NE(
        message_of<InvalidArgument>([&] {
          parse_flight(json, "f.json");
        }).find("flight record f.json"),
        std::string::npos)
        << json;
}

TEST(FlightFile, RefusesMoreCallsThanARingHolds) {
  std::string calls;
  for (size_t i = 1; i <= kFlightEntries + 1; ++i)
    calls += text(
        i == 1 ? "" : ", ",
        replaced(kCollective, "\"ticket\": 7", text("\"ticket\": ", i)));
  EXPECT_THROW(parse_flight(record(0, 2, calls), "f"), InvalidArgument);
}

TEST(FlightFile, TakesAnyDepthOfNesting) {
  EXPECT_THROW(parse_flight(std::string(1 << 20, '['), "f"), InvalidArgument);
}

TEST(FlightFile, LoadsTheRecordsOfAFolderInOrder) {
  const ScratchFolder folder;
  folder.write("rank_10.json", record(10, 11));
  folder.write("rank_2.json", record(2, 11));
  for (const char* other : {"rank_02.json", "rank_x.json", "rank_3", ".rank_1_by_0_7"})
    folder.write(other, "not a record");
  const auto records = load_flight(folder.path());
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].rank, 2);
  EXPECT_EQ(records[1].rank, 10);
}

TEST(FlightFile, RefusesFoldersWithoutRecordsOfOneJob) {
  const ScratchFolder folder;
  const auto load = [&] {
    return message_of<InvalidArgument>([&] { load_flight(folder.path()); });
  };
  EXPECT_NE(load().find("which has none"), std::string::npos) << load();
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        load_flight(folder.path() / "no");
      }).find("cannot be read"),
      std::string::npos);
  folder.write("rank_0.json", record(1, 2));
  EXPECT_NE(load().find("expected rank 0"), std::string::npos) << load();
  folder.write("rank_0.json", record(0, 2));
  folder.write("rank_1.json", record(1, 3));
  EXPECT_NE(load().find("two jobs"), std::string::npos) << load();
}

TEST(FlightFile, RefusesWhatIsNoPlainFileOrTooLarge) {
  const ScratchFolder folder;
  const auto file = folder.path() / "rank_0.json";
  const auto load = [&] {
    return message_of<InvalidArgument>([&] { load_flight(folder.path()); });
  };
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_NE(load().find("got no text"), std::string::npos) << load();
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_NE(load().find("got no text"), std::string::npos) << load();
  std::filesystem::remove(file);
  folder.write("rank_0.json", "");
  std::filesystem::resize_file(file, 5 << 20);
  EXPECT_NE(load().find("got more"), std::string::npos) << load();
}

TEST(FlightFile, ReadsWhatTheRecorderWrites) {
  const ScratchFolder folder;
  std::vector<std::byte> rings(2 * kFlightRingBytes + 64);
  void* place = rings.data();
  size_t space = rings.size();
  auto* aligned =
      static_cast<std::byte*>(std::align(64, 2 * kFlightRingBytes, place, space));
  FlightRecorder recorder(aligned, 1, 2, (folder.path() / "job").string(), nullptr);
  for (uint32_t i = 1; i <= kFlightEntries + 5; ++i)
    recorder.begin({.sequence = i}).done();
  {
    auto fails =
        recorder.begin({.kind = FlightKind::Receive, .sequence = 1, .peer = 0});
  }
  recorder.dump(1, "a reason with \"quotes\" and \xff");
  const auto records = load_flight(folder.path() / "job");
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].rank, 1);
  ASSERT_EQ(records[0].calls.size(), kFlightEntries);
  EXPECT_EQ(records[0].calls.back().kind, FlightKind::Receive);
  EXPECT_EQ(records[0].calls.back().state, FlightState::Failed);
}

}  // namespace
}  // namespace trireme::comm
