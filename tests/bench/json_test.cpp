#include "trireme/bench/json.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/scratch_folder.h"

namespace trireme::bench {
namespace {

namespace fs = std::filesystem;

Record sample_record() {
  Record record{
      .bench = "comm",
      .name = "all_reduce 4 B",
      .goal = 15,
      .machine = "AMD EPYC, 2 cores, 23.5 GiB",
      .load = 0.25};
  record.ours.add_round({0.5});
  record.peer.add_round({100, 200, 300.1234567});
  return record;
}

class BenchFile : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  const ScratchFolder folder_;
};

TEST(BenchJson, HasTheFieldsThatOthersRead) {
  const auto list = nlohmann::json::parse(to_json({sample_record()}));
  ASSERT_EQ(list.size(), 1u);
  const auto& object = list[0];
  EXPECT_EQ(object.size(), 12u);
  EXPECT_EQ(object.at("left_out"), "");
  EXPECT_EQ(object.at("bench"), "comm");
  EXPECT_EQ(object.at("case"), "all_reduce 4 B");
  EXPECT_EQ(object.at("ours"), 0.5);
  EXPECT_EQ(object.at("peer"), 200);
  EXPECT_EQ(object.at("ratio"), 400);
  EXPECT_TRUE(object.at("limit").is_null());
  EXPECT_EQ(object.at("goal"), 15);
  EXPECT_EQ(object.at("unit"), "us");
  EXPECT_EQ(object.at("samples").at("peer"), (std::vector<double>{100, 200, 300.123}));
  EXPECT_EQ(object.at("samples").at("ours_rounds"), std::vector<double>{0.5});
  EXPECT_EQ(object.at("machine"), "AMD EPYC, 2 cores, 23.5 GiB");
  EXPECT_EQ(object.at("load"), 0.25);
}

TEST(BenchJson, HasNullForAMissingPeer) {
  Record record = sample_record();
  record.peer = {};
  const auto object = nlohmann::json::parse(to_json({record}))[0];
  EXPECT_TRUE(object.at("peer").is_null());
  EXPECT_TRUE(object.at("ratio").is_null());
}

TEST(BenchJson, ComesBackAsItWas) {
  Record record = sample_record();
  record.limit = 7;
  const auto back = parse_records(to_json({record, sample_record()}));
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].name, record.name);
  EXPECT_EQ(back[0].limit, record.limit);
  EXPECT_EQ(back[0].goal, record.goal);
  EXPECT_EQ(back[0].ours.rounds, record.ours.rounds);
  EXPECT_EQ(back[0].peer.rounds, record.peer.rounds);
  EXPECT_EQ(back[0].machine, record.machine);
  EXPECT_EQ(back[1].limit, std::nullopt);
}

TEST(BenchJson, RefusesWhatItDidNotWrite) {
  for (const char* wrong : {"", "{}", "[{}]", "[1]", "[{\"bench\":3}]", "[", "null"})
    EXPECT_THROW(parse_records(wrong), InvalidArgument) << wrong;
}

TEST_F(BenchFile, IsWrittenWholeAndLeavesNothingBeside) {
  write_records(path("new.json"), {sample_record()});
  write_records(path("new.json"), {sample_record(), sample_record()});
  EXPECT_EQ(read_records(path("new.json")).size(), 2u);
  EXPECT_EQ(
      std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()),
      1);
}

TEST_F(BenchFile, SaysWhereItCannotBeWritten) {
  try {
    write_records(path("none/new.json"), {});
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("none/new.json"), std::string::npos);
  }
}

TEST_F(BenchFile, SaysWhichFileIsNotOne) {
  folder_.write("bad.json", "[{]");
  for (const char* name : {"absent.json", "bad.json", "."})
    try {
      read_records(path(name));
      FAIL() << "expected an error for " << name;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos)
          << error.what();
    }
}

}  // namespace
}  // namespace trireme::bench
