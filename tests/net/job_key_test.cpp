#include "trireme/net/job_key.h"

#include <set>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::net {
namespace {

const std::string kKeyText =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

TEST(JobKey, IsParsedAndPrinted) {
  const JobKey key = JobKey::parse(kKeyText);
  EXPECT_EQ(key.text(), kKeyText);
  EXPECT_EQ(key.bytes()[0], 0);
  EXPECT_EQ(key.bytes()[31], 31);
  std::string upper = kKeyText;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) {
    return static_cast<char>(std::toupper(c));
  });
  EXPECT_EQ(JobKey::parse(upper), key);
}

TEST(JobKey, IsRefusedWithoutBeingQuoted) {
  const std::string almost = kKeyText.substr(0, 63);
  for (const std::string& wrong :
       {std::string(),
        almost,
        almost + "g",
        kKeyText + "0",
        kKeyText + "\n",
        " " + almost}) {
    const std::string message =
        testing::message_of<InvalidArgument>([&wrong] { (void)JobKey::parse(wrong); });
    EXPECT_TRUE(testing::contains(message, "64 hexadecimal digits"));
    EXPECT_FALSE(testing::contains(message, "0405"));
  }
}

TEST(JobKey, IsRandom) {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i)
    keys.insert(JobKey::random().text());
  EXPECT_EQ(keys.size(), 100U);
}

TEST(JobKey, EqualsOnlyItself) {
  const JobKey key = JobKey::random();
  EXPECT_TRUE(key == JobKey::parse(key.text()));
  for (std::size_t i = 0; i < 64; ++i) {
    std::string other = key.text();
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_FALSE(key == JobKey::parse(other)) << i;
  }
}

// The fingerprint is shown to everybody, so no part of the key may be in it.
TEST(JobKey, HasAFingerprintThatIsNoPartOfIt) {
  const JobKey key = JobKey::parse(kKeyText);
  // printf 'trireme job key fingerprint' and the 32 bytes, piped into sha256sum.
  EXPECT_EQ(key.fingerprint(), "53f2061d");
  for (int i = 0; i < 100; ++i) {
    const JobKey other = JobKey::random();
    EXPECT_EQ(other.fingerprint().size(), 8U);
    EXPECT_FALSE(testing::contains(other.text(), other.fingerprint()));
  }
}

TEST(JobKey, IsWrittenToAFileOfItsOwner) {
  const testing::ScratchFolder folder;
  const JobKey key = JobKey::random();
  key.write(folder.path() / "job.key");
  EXPECT_EQ(JobKey::read(folder.path() / "job.key"), key);
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "job.key"), 65U);
  struct stat status {};
  ASSERT_EQ(::stat((folder.path() / "job.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  EXPECT_THROW(JobKey::random().write(folder.path() / "job.key"), InvalidArgument);
  EXPECT_EQ(JobKey::read(folder.path() / "job.key"), key);
}

TEST(JobKey, IsReadFromOneLine) {
  const testing::ScratchFolder folder;
  const auto read = [&folder](const std::string& content) {
    const auto path = folder.write("key", content);
    std::filesystem::permissions(path, std::filesystem::perms(0600));
    return JobKey::read(path);
  };
  EXPECT_EQ(read(kKeyText), JobKey::parse(kKeyText));
  EXPECT_EQ(read(kKeyText + "\n"), JobKey::parse(kKeyText));
  for (const std::string& wrong :
       {kKeyText + "\n\n", kKeyText + "0", kKeyText.substr(1), "\n" + kKeyText}) {
    const std::string message =
        testing::message_of<InvalidArgument>([&] { (void)read(wrong); });
    EXPECT_FALSE(testing::contains(message, "0405")) << message;
  }
}

TEST(JobKey, IsNotReadWhereOthersMayReadIt) {
  const testing::ScratchFolder folder;
  const auto path = folder.write("key", kKeyText);
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  const std::string message =
      testing::message_of<InvalidArgument>([&path] { (void)JobKey::read(path); });
  EXPECT_TRUE(testing::contains(message, "mode 0640"));
  EXPECT_FALSE(testing::contains(message, "0405"));
}

// A common slip: the key where its file's path belongs. It must not get into a log.
TEST(JobKey, InPlaceOfAPathIsNotQuoted) {
  const std::string message =
      testing::message_of<InvalidArgument>([] { (void)JobKey::read(kKeyText); });
  EXPECT_TRUE(testing::contains(message, "got a job key itself"));
  EXPECT_FALSE(testing::contains(message, "0405"));
}

}  // namespace
}  // namespace trireme::net
