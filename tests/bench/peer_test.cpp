#include "trireme/bench/peer.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/scratch_folder.h"

namespace trireme::bench {
namespace {

namespace fs = std::filesystem;

class FindPeer : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(program_.parent_path()); }

  fs::path write(const fs::path& inside) const { return folder_.write(inside, "\n"); }

  PeerCommand find(Environment::Variables more = {}) const {
    more.try_emplace("TRIREME_PYTHON", "python3");
    return find_peer("comm", Environment(std::move(more)), program_);
  }

  const ScratchFolder folder_;
  const fs::path& root_ = folder_.path();
  const fs::path program_ = root_ / "build" / "release" / "bin" / "trireme-torch";
};

TEST_F(FindPeer, NeedsAPython) {
  write("build/release/share/trireme/peers/comm.py");
  EXPECT_NE(
      find({{"TRIREME_PYTHON", ""}}).missing.find("TRIREME_PYTHON"), std::string::npos);
  const PeerCommand unset = find_peer("comm", Environment(), program_);
  EXPECT_NE(unset.missing.find("./trireme"), std::string::npos);
  EXPECT_TRUE(unset.command.empty());
}

TEST_F(FindPeer, LooksInTheInstalledPlace) {
  const fs::path script = write("build/release/share/trireme/peers/comm.py");
  const PeerCommand peer = find();
  EXPECT_EQ(peer.command, (std::vector<std::string>{"python3", script.string()}));
  EXPECT_TRUE(peer.missing.empty());
}

TEST_F(FindPeer, LooksInTheSourceTreeOnlyFromABuildFolder) {
  const fs::path script = write("bench/peers/comm.py");
  EXPECT_FALSE(find().missing.empty());
  write("build/release/CMakeCache.txt");
  EXPECT_EQ(find().command.back(), script.string());
}

TEST_F(FindPeer, TakesTheFolderThatWasNamed) {
  write("build/release/share/trireme/peers/comm.py");
  const fs::path script = write("mine/comm.py");
  const std::string mine = (root_ / "mine").string();
  EXPECT_EQ(find({{"TRIREME_PEERS", mine}}).command.back(), script.string());
  const std::string empty = (root_ / "none").string();
  EXPECT_NE(find({{"TRIREME_PEERS", empty}}).missing.find("none"), std::string::npos);
}

TEST_F(FindPeer, SaysWhichScriptIsMissing) {
  EXPECT_NE(find().missing.find("comm.py"), std::string::npos);
}

TEST(ThisProgram, IsAFile) {
  EXPECT_TRUE(fs::is_regular_file(this_program()));
}

}  // namespace
}  // namespace trireme::bench
