#include "trireme/model/config_object.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;

const ConfigObject kConfig = ConfigObject::parse(
    R"({"layers": 3, "eps": 1e-5, "tie": true, "act": "gelu", "none": null,
        "rope": {"theta": 10000}, "big": 99999999999999999999, "half": 1.5, "minus": -1})");

TEST(ConfigObject, ReadsEachType) {
  EXPECT_EQ(kConfig.whole("layers", 1), 3);
  EXPECT_EQ(kConfig.number("eps", 1, 0, 1), 1e-5);
  EXPECT_EQ(kConfig.number("layers", 1, 0, 9), 3);
  EXPECT_TRUE(kConfig.flag("tie", false));
  EXPECT_EQ(kConfig.word("act", ""), "gelu");
  EXPECT_EQ(kConfig.object("rope")->whole("theta", 1), 10000);
}

TEST(ConfigObject, WhatIsMissingOrNullHasItsDefault) {
  for (const char* key : {"other", "none"}) {
    EXPECT_FALSE(kConfig.has(key));
    EXPECT_EQ(kConfig.whole(key, 7), 7);
    EXPECT_EQ(kConfig.number(key, 7, 0, 1), 7);
    EXPECT_TRUE(kConfig.flag(key, true));
    EXPECT_EQ(kConfig.word(key, "x"), "x");
    EXPECT_FALSE(kConfig.object(key));
  }
  EXPECT_EQ(kConfig.first_of({"other", "layers"}), "layers");
  EXPECT_EQ(kConfig.first_of({"other", "none"}), "other");
}

TEST(ConfigObject, WrongValuesAreNamed) {
  const auto refuses = [](const std::function<void()>& read, const char* part) {
    EXPECT_TRUE(contains(message_of<InvalidArgument>(read), part));
  };
  refuses(
      [] { kConfig.whole("act", 1); }, R"("act" to be a whole number between 1 and )");
  refuses([] { kConfig.whole("act", 1); }, R"(got "gelu")");
  refuses([] { kConfig.whole("big", 1); }, R"("big" to be a whole number)");
  refuses([] { kConfig.whole("half", 1); }, R"("half" to be a whole number)");
  refuses([] { kConfig.whole("minus", 1); }, "got -1");
  refuses(
      [] { kConfig.number("tie", 1, 0, 1); },
      R"("tie" to be a number between 0 and 1)");
  refuses([] { kConfig.number("layers", 1, 0, 1); }, "got 3");
  refuses([] { kConfig.flag("layers", true); }, R"("layers" to be true or false)");
  refuses([] { kConfig.word("layers", ""); }, R"("layers" to be a text)");
  refuses([] { kConfig.object("layers"); }, R"("layers" to be an object)");
  refuses(
      [] { kConfig.object("rope")->flag("theta", true); },
      "config.json, rope: expected");
}

TEST(ConfigObject, WhatIsNoObjectIsRefused) {
  for (const char* text : {"", "{", "[1]", "3", "{\"a\": 1,}", "\xff"})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { ConfigObject::parse(text); }),
        "config.json: expected a JSON object"))
        << text;
}

TEST(ConfigObject, DeepNestingIsNoDanger) {
  EXPECT_THROW(ConfigObject::parse(std::string(1'000'000, '[')), InvalidArgument);
  const auto nested = [](size_t levels) {
    return text(R"({"a": )", std::string(levels, '['), std::string(levels, ']'), "}");
  };
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { ConfigObject::parse(nested(1'000'000)); }),
      "expected at most 32 levels"));
  EXPECT_TRUE(ConfigObject::parse(nested(20)).has("a"));
}

TEST(ConfigObject, KeepsWhatItDoesNotKnow) {
  const ConfigObject one = ConfigObject::parse(R"({"b": 1, "a": [1, 2]})");
  EXPECT_EQ(one.with("b", "\"x\"").word("b", ""), "x");
  const ConfigObject both =
      one.with_missing(ConfigObject::parse(R"({"b": 5, "c": 6})"));
  EXPECT_EQ(both.whole("b", 0), 1);
  EXPECT_EQ(both.whole("c", 0), 6);
  EXPECT_EQ(both.json_of("a"), "[1,2]");
  EXPECT_EQ(both.json_of("x"), "null");
  EXPECT_EQ(one.dump(), "{\n  \"b\": 1,\n  \"a\": [\n    1,\n    2\n  ]\n}\n");
}

TEST(ConfigObject, SaysWhatIsNotSupported) {
  EXPECT_EQ(
      message_of<NotSupported>([] { kConfig.not_supported("act", "take relu"); }),
      R"([model] config.json: expected a known "act", got "gelu"; take relu)");
}

TEST(ConfigObject, SizesAreChecked) {
  check_at_least_one("a", 1);
  check_divides("a", 6, "b", 3);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { check_at_least_one("a", 0); }),
      "expected \"a\" of at least 1, got 0"));
  for (const int64_t part : {0, 4})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { check_divides("a", 6, "b", part); }),
        text("expected \"a\" that \"b\" divides, got 6 and ", part)));
}

}  // namespace
}  // namespace trireme::model
