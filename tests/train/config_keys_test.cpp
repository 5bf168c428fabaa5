#include "trireme/train/config_keys.h"

#include <set>

#include <gtest/gtest.h>

#include "key_rows.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::train {
namespace {

using testing::message_of;

TEST(ConfigKeys, EveryKeyHasItsOwnPlaceAndName) {
  Config config;
  std::set<const void*> places;
  std::set<std::string> names;
  for (const Key& key : config_keys()) {
    EXPECT_TRUE(names.insert(full_name(key)).second) << full_name(key);
    const void* place =
        std::visit([](auto* slot) -> const void* { return slot; }, key.slot(config));
    EXPECT_TRUE(places.insert(place).second) << full_name(key);
  }
}

TEST(ConfigKeys, DefaultsAreWithinTheirOwnLimits) {
  Config config;
  for (const Key& key : config_keys()) {
    const Value value =
        std::visit([](auto* slot) -> Value { return *slot; }, key.slot(config));
    EXPECT_NO_THROW(assign(config, key, value, "here")) << full_name(key);
  }
}

TEST(ConfigKeys, SetsEachType) {
  Config config;
  assign(config, find_key("data", "shuffle", ""), false, "");
  assign(config, find_key("training", "steps", ""), int64_t{7}, "");
  assign(config, find_key("optimizer", "lr", ""), 0.5, "");
  assign(config, find_key("optimizer", "eps", ""), int64_t{1}, "");
  assign(config, find_key("optimizer", "name", ""), std::string("SGD"), "");
  assign(config, find_key("data", "path", ""), std::string("one.txt"), "");
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.training.steps, 7);
  EXPECT_EQ(config.optimizer.lr, 0.5);
  EXPECT_EQ(config.optimizer.eps, 1);
  EXPECT_EQ(config.optimizer.name, "SGD");
  EXPECT_EQ(config.data.path, std::vector<std::string>{"one.txt"});
}

TEST(ConfigKeys, WrongValuesSayWhatWasWanted) {
  Config config;
  const auto set = [&](const char* section, const char* name, const Value& value) {
    return message_of<InvalidArgument>(
        [&] { assign(config, find_key(section, name, "x"), value, "job.toml:3"); });
  };
  EXPECT_EQ(
      set("training", "steps", int64_t{0}),
      "[train] job.toml:3: expected training.steps to be a whole number of at least 1, "
      "got 0; correct it");
  EXPECT_EQ(
      set("training", "steps", 1.5),
      "[train] job.toml:3: expected training.steps to be a whole number of at least 1, "
      "got 1.5; correct it");
  EXPECT_EQ(
      set("optimizer", "name", std::string("Adam")),
      "[train] job.toml:3: expected optimizer.name to be one of AdamW, SGD, got "
      "\"Adam\"; correct it");
  EXPECT_EQ(
      set("data", "shuffle", std::string("no")),
      "[train] job.toml:3: expected data.shuffle to be true or false, got \"no\"; "
      "correct it");
  EXPECT_EQ(
      set("optimizer", "beta1", 2.0),
      "[train] job.toml:3: expected optimizer.beta1 to be a number from 0 to 0.999999, "
      "got 2; correct it");
  EXPECT_NE(
      set("optimizer", "lr", std::numeric_limits<double>::quiet_NaN())
          .find("a number of at least 0, got nan"),
      std::string::npos);
  EXPECT_NE(
      set("data", "path", true).find("a list of texts in UTF-8, got true"),
      std::string::npos);
  for (const std::string& bytes : {std::string("a\xc4"), std::string("a\0b", 3)}) {
    EXPECT_NE(
        set("model", "name", bytes).find("a text in UTF-8, got "), std::string::npos);
    EXPECT_NE(
        set("data", "path", std::vector{bytes}).find("in UTF-8, got a list"),
        std::string::npos);
  }
}

TEST(ConfigKeys, UnknownKeysNameTheNearest) {
  const auto find = [](const char* section, const char* name) {
    return message_of<InvalidArgument>(
        [&] { find_key(section, name, "the command line"); });
  };
  EXPECT_EQ(
      find("training", "step"),
      "[train] the command line: expected a key of a training job, got "
      "\"training.step\"; did you mean training.steps?");
  EXPECT_NE(
      find("trainng", "steps").find("did you mean training.steps?"), std::string::npos);
  EXPECT_NE(
      find("quux", "zork").find("expected a section of job, model, data"),
      std::string::npos);
  EXPECT_NE(
      find("validation", "xxxxxxxx").find("validation has freq, steps"),
      std::string::npos);
}

TEST(ConfigKeys, EveryKeyHasARowAndEveryRowAKey) {
  std::set<std::string> keys, rows;
  for (const Key& key : config_keys())
    keys.insert(full_name(key));
  for (const KeyRow& row : key_rows()) {
    EXPECT_TRUE(rows.insert(row.key).second) << row.key << " has two rows";
    EXPECT_FALSE(row.wrong.empty()) << row.key;
  }
  EXPECT_EQ(keys, rows) << "a new key needs a row in key_rows.h";
}

TEST(ConfigKeysRanks, AWrongValueIsRefusedByName) {
  for (const KeyRow& row : key_rows())
    for (const std::string& wrong : row.wrong) {
      SCOPED_TRACE(text(row.key, " = ", wrong));
      const testing::ScratchFolder folder;
      Config config = key_config(folder, row);
      const std::string error = testing::message_of<Error>([&] {
        set_key(config, row.key, wrong);
        check_config(config);
        row.observe(config);
      });
      EXPECT_TRUE(testing::contains(error, row.key));
    }
}

TEST(ConfigKeysRanks, ARightValueHasAnEffect) {
  for (const KeyRow& row : key_rows()) {
    SCOPED_TRACE(text(row.key, " = ", row.right));
    const testing::ScratchFolder folder;
    const testing::ScratchFolder other;
    const std::string before = row.observe(key_config(folder, row));
    Config config = key_config(other, row);
    set_key(config, row.key, in_folder(row.right, other));
    ASSERT_NO_THROW(check_config(config));
    EXPECT_NE(row.observe(config), before);
    // The same value twice has the same effect, so what was seen is the key's doing.
    const testing::ScratchFolder third;
    EXPECT_EQ(row.observe(key_config(third, row)), before);
  }
}

}  // namespace
}  // namespace trireme::train
