#include "trireme/net/store_map.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "refusal.h"

namespace trireme::net {
namespace {

TEST(StoreMap, CountsItsBytes) {
  StoreMap map;
  map.set("ab", store_value("123"));
  EXPECT_EQ(map.bytes(), 5 + kStoreEntryBytes);
  map.set("ab", store_value(""));
  EXPECT_EQ(map.bytes(), 2 + kStoreEntryBytes);
  map.set("c", store_value("1"));
  EXPECT_EQ(map.size(), 2u);
  EXPECT_TRUE(map.erase("ab"));
  EXPECT_FALSE(map.erase("ab"));
  EXPECT_TRUE(map.erase("c"));
  EXPECT_EQ(map.bytes(), 0u);
}

TEST(StoreMap, RefusesWhatIsTooMuchAndStaysAsItIs) {
  StoreMap map(2 * kStoreEntryBytes + 10);
  map.set("a", store_value("1234"));
  map.set("b", store_value("1234"));
  EXPECT_EQ(
      refusal_of([&] { map.set("b", store_value("12345")); }),
      "[net] expected at most 266 bytes in the store, got 267 with the key \"b\"; "
      "erase "
      "keys that nobody needs any more");
  EXPECT_EQ(*map.find("b"), "1234");
  map.set("b", store_value("123"));
  map.set("a", store_value("12345"));
  EXPECT_THROW(map.check_set("c", ""), InvalidArgument);
  map.put("c", store_value("checked elsewhere"));
  EXPECT_EQ(map.size(), 3u);
}

TEST(StoreMap, SumsDecimalText) {
  StoreMap map;
  EXPECT_EQ(*map.sum("n", -7), "-7");
  map.set("n", store_value("-9223372036854775808"));
  EXPECT_EQ(*map.sum("n", 1), "-9223372036854775807");
  EXPECT_THROW(map.sum("n", -1), InvalidArgument);
  map.set("n", store_value("seven"));
  EXPECT_EQ(
      refusal_of([&] { map.sum("n", 1); }),
      "[net] expected a whole number under the store key \"n\" to add to, got "
      "\"seven\"; use another key for the count");
}

TEST(StoreMap, TellsAbsentFromEmpty) {
  StoreMap map;
  EXPECT_TRUE(map.matches("k", nullptr));
  EXPECT_FALSE(map.matches("k", store_value("")));
  map.set("k", store_value(""));
  EXPECT_FALSE(map.matches("k", nullptr));
  EXPECT_TRUE(map.matches("k", store_value("")));
}

TEST(StoreMap, GivesKeysInPages) {
  StoreMap map;
  std::vector<std::string> all;
  for (char c = 'a'; c <= 'j'; ++c) {
    all.push_back(std::string("k/") + c);
    map.set(all.back(), store_value(""));
  }
  map.set("k", store_value(""));
  map.set("l", store_value(""));
  std::vector<std::string> found;
  int pages = 0;
  for (bool more = true; more; ++pages) {
    const auto page = map.keys("k/", found.empty() ? nullptr : &found.back(), 3 * 7);
    EXPECT_LE(page.keys.size(), 3u);
    found.insert(found.end(), page.keys.begin(), page.keys.end());
    more = page.more;
  }
  EXPECT_EQ(found, all);
  EXPECT_EQ(pages, 4);
  // A page holds at least one key, however long.
  EXPECT_EQ(map.keys("", nullptr, 0).keys.size(), 1u);
  // What comes before the prefix does not matter.
  const std::string early = "a";
  EXPECT_EQ(map.keys("k/", &early, 1000).keys, all);
}

}  // namespace
}  // namespace trireme::net
