#include "trireme/rpc/flight_note.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/rpc/agent.h"
#include "trireme/testing/rpc_world.h"

namespace trireme::rpc {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class FlightNotesRanks : public ::testing::Test {
 protected:
  FlightNotesRanks() { setenv("TRIREME_FLIGHT_DIR", folder_.path().c_str(), 1); }
  ~FlightNotesRanks() override { unsetenv("TRIREME_FLIGHT_DIR"); }
  std::filesystem::path note(const std::string& worker) const {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_.path()))
      if (entry.path().filename() == "rpc-" + worker + ".txt")
        return entry.path();
    return {};
  }
  // It is written while others go on.
  std::filesystem::path note_soon(const std::string& worker) const {
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    while (note(worker).empty() && !deadline.expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return note(worker);
  }
  ScratchFolder folder_;
};

TEST_F(FlightNotesRanks, AreWrittenAtMostOnceASecond) {
  FlightNotes notes("job", "w");
  EXPECT_TRUE(notes.due());
  EXPECT_FALSE(notes.due());
}

TEST_F(FlightNotesRanks, ListAllThatWaits) {
  FlightNotes notes("job", "w");
  notes.write("add is late", {"add on b", "evil\nname"}, 3);
  EXPECT_EQ(
      text_of(note_soon("w")),
      "worker w: add is late; it serves 3 calls of others, and waits for 2:\n"
      "  add on b\n"
      "  evil\\nname\n");
}

TEST_F(FlightNotesRanks, ALateCallLeavesOne) {
  FunctionTable functions;
  functions.add("sleep", [] {
    while (!this_call()->cancel.cancelled())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  testing::run_rpc(
      testing::RpcKind::Threads, 2, {.functions = functions}, [&](Agent& agent) {
        if (agent.me().id != 0)
          return;
        const Future<void> other = agent.to(1).async<void>("sleep");
        EXPECT_THROW(
            agent.to(1, {.timeout = std::chrono::milliseconds(50)}).call<void>("sleep"),
            TimeoutError);
        const std::string lines = text_of(note_soon("worker0"));
        EXPECT_NE(
            lines.find("sleep() -> nothing on worker worker1 is late"),
            std::string::npos)
            << lines;
        EXPECT_NE(
            lines.find("waits for 1:\n  sleep() -> nothing on worker worker1"),
            std::string::npos)
            << lines;
        other.cancel();
      });
}

// Nobody waits for the disk.
TEST_F(FlightNotesRanks, WhoeverWaitsForTheCallGoesFirst) {
  FunctionTable functions;
  functions.add("sleep", [] {
    while (!this_call()->cancel.cancelled())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  testing::run_rpc(
      testing::RpcKind::Threads, 2, {.functions = functions}, [&](Agent& agent) {
        if (agent.me().id != 0)
          return;
        const auto was_there =
            agent.to(1, {.timeout = std::chrono::milliseconds(50)})
                .async<void>("sleep")
                .handle([&](const Future<void>&) { return !note("worker0").empty(); });
        EXPECT_FALSE(was_there.get());
        EXPECT_FALSE(note_soon("worker0").empty());
      });
}

}  // namespace
}  // namespace trireme::rpc
