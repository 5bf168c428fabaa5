#include "trireme/launch/roles.h"

#include <limits>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::launch {
namespace {

const std::vector<RoleShare> kRoles = {
    {.name = "trainer", .ranks = 4},
    {.name = "server", .ranks = 1},
    {.name = "eval", .ranks = 2}};

std::string parts_refusal(const std::vector<Part>& parts) {
  try {
    return text("took ", read_roles(parts).size());
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(ReadRoles, NameEachPartAfterItsProgram) {
  const std::vector<Part> parts = {
      {.ranks = 4, .command = {"./bin/trainer", "--epochs=2"}},
      {.command = {"/opt/server.py"}},
      {.command = {"a b"}},
      {.command = {".hidden"}},
      {.role = "judge", .ranks = 2, .command = {"./trainer"}}};
  const std::vector<RoleShare> wanted = {
      {.name = "trainer", .ranks = 4},
      {.name = "server", .ranks = 1},
      {.name = "a b", .ranks = 1},
      {.name = ".hidden", .ranks = 1},
      {.name = "judge", .ranks = 2}};
  EXPECT_EQ(read_roles(parts), wanted);
}

TEST(ReadRoles, OnePartAloneIsCalledAsTorchrunCallsIt) {
  const std::vector<Part> unnamed = {{.ranks = 3, .command = {"./trainer"}}};
  EXPECT_EQ(read_roles(unnamed)[0], (RoleShare{.name = "default", .ranks = 3}));
  const std::vector<Part> named = {{.role = "trainer", .command = {"./x"}}};
  EXPECT_EQ(read_roles(named)[0].name, "trainer");
}

TEST(ReadRoles, RefuseTwoOfOneName) {
  const char* wanted =
      "[launch] expected a role of its own for each program, got two called "
      "\"trainer\"; name one of them with --role (Part::role)";
  EXPECT_EQ(
      parts_refusal({{.command = {"a/trainer"}}, {.command = {"b/trainer"}}}), wanted);
  EXPECT_EQ(
      parts_refusal(
          {{.command = {"trainer.py"}}, {.role = "trainer", .command = {"x"}}}),
      wanted);
  EXPECT_EQ(
      parts_refusal(
          {{.command = {"trainer"}}, {.role = "other", .command = {"trainer"}}}),
      "took 2");
}

TEST(ReadRoles, RefuseNamesThatCannotStandOnALine) {
  for (const std::string& name :
       {std::string(65, 'x'),
        std::string("a\nb"),
        std::string("\x1b[2J"),
        std::string("a\0b", 3),
        std::string("\x7f")}) {
    const std::string what = parts_refusal({{.role = name, .command = {"x"}}});
    EXPECT_TRUE(what.starts_with(
        "[launch] expected a role of 1 to 64 bytes without control characters, got \""))
        << what;
    EXPECT_EQ(parts_refusal({{.command = {"y"}}, {.command = {name}}}), what);
  }
  EXPECT_EQ(
      parts_refusal({{.role = std::string(64, 'x'), .command = {"x"}}}), "took 1");
  const std::string folder =
      parts_refusal({{.command = {"y"}}, {.command = {"folder/"}}});
  EXPECT_NE(folder.find("got \"\"; name it with --role"), std::string::npos) << folder;
}

TEST(ReadRoles, RefusePartsWithoutRanksOrProgram) {
  EXPECT_EQ(
      parts_refusal({{.command = {"trainer"}}, {.ranks = 0, .command = {"server"}}}),
      "[launch] expected at least one rank of server, got 0; give the number of ranks "
      "with -n");
  EXPECT_EQ(
      parts_refusal({{.ranks = -2, .command = {"trainer"}}, {.command = {"server"}}}),
      "[launch] expected at least one rank of trainer, got -2; give the number of "
      "ranks with -n");
  const char* none =
      "[launch] expected a program to run, got none; give its name first";
  EXPECT_EQ(parts_refusal({}), none);
  EXPECT_EQ(parts_refusal({{.command = {}}}), none);
  EXPECT_EQ(
      parts_refusal({{.command = {"trainer"}}, {.role = "x", .command = {}}}), none);
}

TEST(RanksInAll, IsTheSum) {
  EXPECT_EQ(ranks_in_all(kRoles), 7);
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_EQ(
      ranks_in_all({{.name = "a", .ranks = kMost}, {.name = "b", .ranks = 2}}), kMost);
}

TEST(RoleOf, CountsFromZeroInEachPart) {
  const std::pair<int, LaunchRole> cases[] = {
      {0, {.name = "trainer", .rank = 0, .size = 4}},
      {3, {.name = "trainer", .rank = 3, .size = 4}},
      {4, {.name = "server", .rank = 0, .size = 1}},
      {5, {.name = "eval", .rank = 0, .size = 2}},
      {6, {.name = "eval", .rank = 1, .size = 2}}};
  for (const auto& [rank, role] : cases) {
    EXPECT_EQ(role_of(kRoles, rank), role) << rank;
    EXPECT_EQ(kRoles[role_index(kRoles, rank)].name, role.name) << rank;
  }
}

}  // namespace
}  // namespace trireme::launch
