#include "trireme/net/certificates.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/net/pem.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::net {
namespace {

namespace fs = std::filesystem;

unsigned mode_bits(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

long count_files(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

TEST(Certificates, LieInFoldersThatOnlyTheirOwnerReads) {
  const testing::ScratchFolder scratch;
  const fs::path ca = scratch.path() / "new/ca";
  make_authority(ca, {.to_days = 10});
  EXPECT_EQ(mode_bits(ca), 0700U);
  EXPECT_EQ(mode_bits(ca / "ca.key"), 0600U);
  EXPECT_EQ(mode_bits(ca / "ca.pem"), 0644U);
  const CertificateFiles files =
      make_certificate(ca, "trainer0", {.to_days = 5}, scratch.path() / "out");
  EXPECT_EQ(files.private_key, scratch.path() / "out/trainer0.key");
  EXPECT_EQ(mode_bits(files.private_key), 0600U);
  EXPECT_EQ(mode_bits(files.certificate), 0644U);
  EXPECT_EQ(read_file(files.authority, 10'000), read_file(ca / "ca.pem", 10'000));
  EXPECT_EQ(count_files(ca), 2);
  EXPECT_EQ(count_files(scratch.path() / "out"), 3);
}

TEST(Certificates, OfSeveralWorkersMayShareAFolder) {
  const testing::ScratchFolder scratch;
  const fs::path ca = scratch.path() / "ca", out = scratch.path() / "out";
  make_authority(ca, {.to_days = 10});
  for (const char* name : {"w0", "w1", "w.2-x_y"})
    (void)make_certificate(ca, name, {.to_days = 5}, out);
  EXPECT_EQ(count_files(out), 7);
  make_authority(scratch.path() / "ca2", {.to_days = 10});
  const std::string message = testing::message_of<InvalidArgument>([&] {
    (void)make_certificate(scratch.path() / "ca2", "w3", {.to_days = 5}, out);
  });
  EXPECT_TRUE(testing::contains(message, "choose another folder"));
  EXPECT_EQ(count_files(out), 7);
}

TEST(Certificates, AreNeverReplaced) {
  const testing::ScratchFolder scratch;
  const fs::path ca = scratch.path() / "ca", out = scratch.path() / "out";
  make_authority(ca, {.to_days = 10});
  const std::string before = read_file(ca / "ca.pem", 10'000);
  EXPECT_THROW(make_authority(ca, {.to_days = 10}), InvalidArgument);
  EXPECT_EQ(read_file(ca / "ca.pem", 10'000), before);
  (void)make_certificate(ca, "w0", {.to_days = 5}, out);
  EXPECT_THROW((void)make_certificate(ca, "w0", {.to_days = 5}, out), InvalidArgument);
  EXPECT_EQ(count_files(out), 3);
  // Where only one of a pair is in the way, the other does not stay either.
  fs::remove(out / "w0.key");
  EXPECT_THROW((void)make_certificate(ca, "w0", {.to_days = 5}, out), InvalidArgument);
  EXPECT_FALSE(fs::exists(out / "w0.key"));
}

TEST(Certificates, AreForPlainNames) {
  const testing::ScratchFolder scratch;
  make_authority(scratch.path(), {.to_days = 10});
  for (const std::string& name :
       {std::string(),
        std::string("."),
        std::string(".."),
        std::string(".w"),
        std::string("w."),
        std::string("-w"),
        std::string("a/b"),
        std::string("a b"),
        std::string("a,DNS:b"),
        std::string("*"),
        std::string("a\nb"),
        std::string("w\0x", 3),
        std::string("caf\xc3\xa9"),
        std::string("ca"),
        std::string(64, 'a')}) {
    const std::string message = testing::message_of<InvalidArgument>([&] {
      (void)make_certificate(scratch.path(), name, {.to_days = 5}, scratch.path());
    });
    EXPECT_TRUE(testing::contains(message, "choose another name"));
  }
  EXPECT_EQ(count_files(scratch.path()), 2);
  (void)make_certificate(
      scratch.path(), std::string(63, 'a'), {.to_days = 5}, scratch.path());
}

TEST(Certificates, AreValidForSomeDays) {
  const testing::ScratchFolder scratch;
  for (const Validity wrong :
       {Validity{.to_days = 0},
        Validity{.to_days = -1},
        Validity{.to_days = 36501},
        Validity{.from_days = 5, .to_days = 5}})
    EXPECT_THROW(make_authority(scratch.path() / "ca", wrong), InvalidArgument);
  EXPECT_FALSE(fs::exists(scratch.path() / "ca"));
}

TEST(Certificates, NeedTheirAuthority) {
  const testing::ScratchFolder scratch;
  const auto make = [&scratch] {
    (void)make_certificate(
        scratch.path() / "ca", "w0", {.to_days = 5}, scratch.path() / "out");
  };
  EXPECT_THROW(make(), InvalidArgument);
  make_authority(scratch.path() / "ca", {.to_days = 10});
  make_authority(scratch.path() / "ca2", {.to_days = 10});
  fs::permissions(scratch.path() / "ca/ca.key", fs::perms(0644));
  EXPECT_TRUE(
      testing::contains(testing::message_of<InvalidArgument>(make), "mode 0644"));
  fs::rename(scratch.path() / "ca2/ca.key", scratch.path() / "ca/ca.key");
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>(make), "the private key of"));
  EXPECT_FALSE(fs::exists(scratch.path() / "out"));
}

}  // namespace
}  // namespace trireme::net
