#include "trireme/ckpt/json_reader.h"

#include "helpers.h"

namespace trireme::ckpt {
namespace {

std::string refused(const std::string& json) {
  return refusal([&] { parse_json(json, "a.json"); });
}

TEST(JsonReader, ReadsWhatIsJson) {
  const Json json =
      parse_json(R"({"a":{"x":1},"b":{"x":2},"c":[{"x":3},{"x":4}]})", "");
  EXPECT_EQ(json["c"][1]["x"], 4);
}

TEST(JsonReader, RefusesANameThatComesTwice) {
  EXPECT_EQ(
      refused(R"({"a":1,"b":2,"a":3})"),
      "[ckpt] a.json: expected each name once, got \"a\" twice");
  expect_part(refused(R"({"o":{"a":{"z":1},"b":2,"a":3}})"), "\"a\" twice");
  expect_part(refused(R"([{"a":1},{"a":1,"a":1}])"), "\"a\" twice");
}

TEST(JsonReader, RefusesOtherTextWithItsPlace) {
  expect_part(refused(""), "expected JSON");
  expect_part(refused("{\"a\":}"), "at byte 6");
  expect_part(refused("{} x"), "expected JSON");
  expect_part(refused("{\"\xff\":1}"), "expected JSON");
  expect_part(refused("[1e999]"), "too large");
}

TEST(JsonReader, RefusesDeepNestingBeforeItCostsMemory) {
  expect_part(refused(std::string(1'000'000, '[')), "levels");
}

TEST(JsonReader, ShowsValuesShortly) {
  EXPECT_EQ(shown(Json("a\nb")), "\"a\\nb\"");
  EXPECT_EQ(shown(Json::array({1, 2})), "a list of 2");
  EXPECT_EQ(shown(Json(1.5)), "1.5");
}

TEST(JsonReader, NumbersAreWholeAndInRange) {
  EXPECT_EQ(whole_number(Json(7U), 7, "x", "a"), 7U);
  for (const char* wrong : {"8", "-1", "1.0", "\"1\"", "null", "true"})
    expect_part(
        refusal([&] { whole_number(Json::parse(wrong), 7, "x", "a"); }),
        "expected x to be a whole number from 0 to 7");
}

TEST(JsonReader, WritesOnlyUtf8) {
  EXPECT_EQ(json_text(Json{{"\u00fc", 1}}, -1, "a"), "{\"\u00fc\":1}");
  expect_part(
      refusal([] {
        json_text(Json{{"\xff", 1}}, -1, "a");
      }),
      "expected names in UTF-8");
}

}  // namespace
}  // namespace trireme::ckpt
