#include "trireme/net/store_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <gtest/gtest.h>

#include "refusal.h"
#include "store_helpers.h"
#include "trireme/core/durable_file.h"
#include "trireme/core/log.h"
#include "trireme/core/scratch_folder.h"

namespace trireme::net {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kPlenty = std::size_t{64} << 20;

class StoreFolderTest : public ::testing::Test {
 protected:
  StoreFolder open(StoreFolder::Changed changed = nullptr) const {
    return StoreFolder(path_, kPlenty, std::move(changed), store_patience());
  }
  static void set(
      StoreFolder& folder, const std::string& key, const std::string& value) {
    folder.visit(store_patience(), [&] { folder.write(key, store_value(value)); });
  }
  static std::string value_in(StoreFolder& folder, const std::string& key) {
    folder.visit(store_patience(), [] {});
    const StoreValue value = folder.map().find(key);
    return value ? *value : "(none)";
  }
  std::string bytes_of(const char* name) const {
    return read_file(path_ / name, kPlenty);
  }
  void write_bytes(const char* name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  ScratchFolder scratch_;
  fs::path path_ = scratch_.path() / "deep" / "store";
  // Torn records are worth a warning, not in the output of a test.
  LogSinkScope quiet_ = set_log_sink([](std::string_view) {});
};

TEST_F(StoreFolderTest, IsSharedAndPrivate) {
  StoreFolder one = open();
  StoreFolder other = open();
  set(one, "a", "1");
  EXPECT_TRUE(other.has_news());
  EXPECT_EQ(value_in(other, "a"), "1");
  EXPECT_FALSE(other.has_news());
  EXPECT_FALSE(one.has_news());
  other.visit(store_patience(), [&] { other.write("a", nullptr); });
  EXPECT_EQ(value_in(one, "a"), "(none)");
  EXPECT_EQ(files(), (std::vector<std::string>{"head", "log.1"}));
  struct stat status {};
  ASSERT_EQ(::stat((path_ / "log.1").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(StoreFolderTest, RefusesFoldersThatOthersMayWriteTo) {
  fs::create_directories(path_);
  fs::permissions(path_, fs::perms::all);
  EXPECT_NE(
      refusal_of([&] { open(); }).find("expected a folder for the store that only its"),
      std::string::npos);
  fs::permissions(path_, fs::perms::owner_all | fs::perms::others_read);
  open();
}

TEST_F(StoreFolderTest, RefusesWhatIsNoFolderOrNoStore) {
  scratch_.write("file", "text");
  EXPECT_THROW(
      StoreFolder(scratch_.path() / "file", kPlenty, nullptr, store_patience()),
      InvalidArgument);
  EXPECT_THROW(
      StoreFolder(scratch_.path() / "file/below", kPlenty, nullptr, store_patience()),
      InvalidArgument);
  scratch_.write("deep/store/head", std::string(100, 'x'));
  fs::permissions(path_, fs::perms::owner_all);
  EXPECT_THROW(open(), InvalidArgument);
}

TEST_F(StoreFolderTest, ATornLastRecordIsRepairedAtEveryByte) {
  {
    StoreFolder folder = open();
    set(folder, "a", "1");
    set(folder, "b", "2");
  }
  const std::string whole = bytes_of("log.1");
  const std::size_t good =
      whole.size() - encode_store_record("b", store_value("2")).size();
  for (std::size_t size = good; size < whole.size(); ++size) {
    write_bytes("log.1", whole.substr(0, size));
    StoreFolder first = open();
    EXPECT_EQ(value_in(first, "a"), "1");
    EXPECT_EQ(value_in(first, "b"), "(none)");
    EXPECT_EQ(bytes_of("log.1").size(), good);
    set(first, "c", "3");
    StoreFolder second = open();
    EXPECT_EQ(value_in(second, "a") + value_in(second, "c"), "13");
  }
}

TEST_F(StoreFolderTest, WhoIsAlreadyThereRepairsToo) {
  StoreFolder folder = open();
  set(folder, "a", "1");
  const std::string record = encode_store_record("b", store_value("2"));
  std::ofstream(path_ / "log.1", std::ios::binary | std::ios::app)
      << record.substr(0, record.size() - 1);
  EXPECT_TRUE(folder.has_news());
  EXPECT_EQ(value_in(folder, "b"), "(none)");
  EXPECT_FALSE(folder.has_news());
  set(folder, "b", "3");
  EXPECT_EQ(value_in(folder, "b"), "3");
}

TEST_F(StoreFolderTest, AFlippedByteIsRefusedAndNeverRead) {
  {
    StoreFolder folder = open();
    set(folder, "key", "value");
    set(folder, "other", "thing");
  }
  for (const char* name : {"head", "log.1"}) {
    const std::string good = bytes_of(name);
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x40);
      write_bytes(name, bad);
      EXPECT_THROW(open(), Error) << name << " byte " << at;
      EXPECT_THROW(open(), Error) << "and again";
    }
    write_bytes(name, good);
  }
  StoreFolder folder = open();
  EXPECT_EQ(value_in(folder, "key"), "value");
}

TEST_F(StoreFolderTest, AMakerThatWasKilledLeavesNothingBehind) {
  fs::create_directories(path_);
  fs::permissions(path_, fs::perms::owner_all);
  write_bytes("head", "");
  write_bytes("log.1", "half a st");
  StoreFolder folder = open();
  set(folder, "a", "1");
  EXPECT_EQ(value_in(folder, "a"), "1");
}

TEST_F(StoreFolderTest, TellsEveryChangeOnce) {
  std::vector<std::string> told;
  StoreFolder other = open();
  set(other, "before", "");
  StoreFolder folder = open([&](const std::string& key, const StoreValue& value) {
    told.push_back(key + "=" + (value ? *value : "(erased)"));
  });
  set(other, "a", "1");
  set(folder, "b", "2");
  other.visit(store_patience(), [&] { other.write("a", nullptr); });
  value_in(folder, "a");
  EXPECT_EQ(told, (std::vector<std::string>{"a=1", "b=2", "a=(erased)"}));
}

TEST_F(StoreFolderTest, ALogOfHistoryIsWrittenAnew) {
  std::vector<std::string> told;
  StoreFolder writer = open();
  set(writer, "keep", "1");
  set(writer, "gone", "1");
  StoreFolder reader = open([&](const std::string& key, const StoreValue& value) {
    told.push_back(key + (value ? text("=", value->size()) : "=(erased)"));
  });
  writer.visit(store_patience(), [&] { writer.write("gone", nullptr); });
  const std::string value(std::size_t{1} << 20, 'v');
  for (int i = 0; i < 30; ++i)
    set(writer, "big", value);
  set(writer, "last", "2");
  EXPECT_EQ(files().size(), 2u);
  EXPECT_NE(files().back(), "log.1");
  EXPECT_LT(fs::file_size(path_ / files().back()), std::size_t{9} << 20);
  // One that was away finds what has changed, each key once.
  EXPECT_TRUE(reader.has_news());
  EXPECT_EQ(value_in(reader, "keep"), "1");
  EXPECT_EQ(value_in(reader, "last"), "2");
  EXPECT_EQ(told[0], "gone=(erased)");
  EXPECT_EQ(told[1], "big=1048576");
  EXPECT_EQ(told.back(), "last=1");
  set(reader, "after", "3");
  EXPECT_EQ(value_in(writer, "after"), "3");
  // What a compaction that was killed has left is removed by the next who opens.
  write_bytes("log.999", "half");
  open();
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(StoreFolderTest, ARemovedStoreIsAnError) {
  StoreFolder folder = open();
  set(folder, "a", "1");
  EXPECT_TRUE(remove_store_folder(path_, store_patience()));
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_FALSE(remove_store_folder(path_, store_patience()));
  EXPECT_NE(
      refusal_of<Error>([&] { set(folder, "a", "2"); }).find("somebody has removed it"),
      std::string::npos);
  open();
}

TEST_F(StoreFolderTest, OnlyAStoreIsRemoved) {
  scratch_.write("deep/other/file", "");
  EXPECT_THROW(
      remove_store_folder(scratch_.path() / "deep/other", store_patience()),
      InvalidArgument);
  scratch_.write("deep/other/head", "some other file");
  EXPECT_THROW(
      remove_store_folder(scratch_.path() / "deep/other", store_patience()),
      InvalidArgument);
  EXPECT_TRUE(fs::exists(scratch_.path() / "deep/other/head"));
}

}  // namespace
}  // namespace trireme::net
