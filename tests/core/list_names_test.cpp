#include "trireme/core/list_names.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ListNames, GivesUpToADozen) {
  EXPECT_EQ(list_names({}), "none");
  EXPECT_EQ(list_names({"a", "b"}), "a, b");
  std::vector<std::string> many;
  for (int i = 0; i < 12; ++i)
    many.push_back(text(i));
  EXPECT_EQ(list_names(many), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11");
  many.push_back("12");
  EXPECT_EQ(list_names(many), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... (13 in all)");
}

}  // namespace
}  // namespace trireme
