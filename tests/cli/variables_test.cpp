#include "trireme/cli/variables.h"

#include <gtest/gtest.h>

namespace trireme::cli {
namespace {

TEST(Variables, AreOnlyThoseOfTriremeAndItsNeighbours) {
  const Environment env{
      {"PATH", "/bin"},
      {"NCCL_DEBUG", "INFO"},
      {"GLOO_X", ""},
      {"TRIREME_LOG", "info"}};
  const auto notes = note_variables(env);
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_EQ(notes[0].name, "TRIREME_LOG");
  EXPECT_EQ(notes[0].value, "info");
  EXPECT_EQ(notes[0].problem, "");
  EXPECT_EQ(notes[1].name, "NCCL_DEBUG");
  EXPECT_EQ(notes[1].reader, "NCCL, once the nccl backend is built; not read now");
  EXPECT_EQ(notes[2].name, "GLOO_X");
  EXPECT_EQ(notes[2].reader, "gloo inside PyTorch; Trireme does not read it");
}

TEST(Variables, AllThatSomethingReadsAreKnown) {
  for (const char* name :
       {"TRIREME_BACKEND",
        "TRIREME_CA_FILE",
        "TRIREME_CERTIFICATE_FILE",
        "TRIREME_FLIGHT_DIR",
        "TRIREME_JOB_KEY",
        "TRIREME_JOB_KEY_FILE",
        "TRIREME_LOG",
        "TRIREME_PEERS",
        "TRIREME_PIP_ARGS",
        "TRIREME_PRIVATE_KEY_FILE",
        "TRIREME_PYTHON",
        "TRIREME_SECURITY",
        "TRIREME_TEXT",
        "TRIREME_TIMEOUT",
        "TRIREME_TORCH"}) {
    const auto notes = note_variables(Environment{{name, "1"}});
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_FALSE(notes[0].reader.starts_with("nobody")) << name;
  }
}

TEST(Variables, NamesTheOneThatMayBeMeant) {
  const auto notes = note_variables(Environment{{"TRIREME_TIMOUT", "3"}});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].reader, "nobody; perhaps you mean TRIREME_TIMEOUT");
  // That all begin alike makes nothing near.
  for (const char* name : {"TRIREME_SAIL", "TRIREME_FOO", "TRIREME_"}) {
    const auto others = note_variables(Environment{{name, "3"}});
    ASSERT_EQ(others.size(), 1U);
    EXPECT_TRUE(others[0].reader.starts_with("nobody in version ")) << others[0].reader;
  }
}

TEST(Variables, SaysWhatTheReaderWillSay) {
  const auto notes =
      note_variables(Environment{{"TRIREME_LOG", "loud"}, {"TRIREME_TIMEOUT", "soon"}});
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_NE(notes[0].problem.find("loud"), std::string::npos) << notes[0].problem;
  EXPECT_NE(notes[1].problem.find("TRIREME_TIMEOUT"), std::string::npos);
}

TEST(Variables, KeepsSecrets) {
  for (const char* name :
       {"TRIREME_JOB_KEY", "NCCL_secret", "GLOO_TOKEN_FILE", "TRIREME_PASSWORD"}) {
    const auto notes = note_variables(Environment{{name, "hush"}});
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_EQ(notes[0].value, kHidden) << name;
  }
}

}  // namespace
}  // namespace trireme::cli
