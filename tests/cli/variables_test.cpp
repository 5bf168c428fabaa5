#include "trireme/cli/variables.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

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

/// What a file reads: names in quotes in a source, after a $ in the script.
std::set<std::string> variables_in(const std::filesystem::path& file) {
  static const std::regex kRead("(?:\"|\\$\\{?)(TRIREME_[A-Z][A-Z_]*)");
  std::ifstream in(file);
  EXPECT_TRUE(in) << file;
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::set<std::string> names;
  for (std::sregex_iterator it(all.begin(), all.end(), kRead), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

TEST(Variables, AllThatSomethingReadsAreKnown) {
  namespace fs = std::filesystem;
  const fs::path root = SOURCE_FOLDER;
  std::set<std::string> names = variables_in(root / "trireme");
  for (const auto& entry : fs::recursive_directory_iterator(root / "src"))
    if (const fs::path& file = entry.path();
        entry.is_regular_file() && file.filename() != "variables.cpp")
      names.merge(variables_in(file));
  EXPECT_TRUE(names.contains("TRIREME_TIMEOUT") && names.contains("TRIREME_PIP_ARGS"));
  EXPECT_GE(names.size(), 20U);
  names.erase("TRIREME_CALLED_AS");  // set by the program, not by a person
  for (const std::string& name : names) {
    const auto notes = note_variables(Environment{{name, "1"}});
    ASSERT_EQ(notes.size(), 1U) << name;
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
