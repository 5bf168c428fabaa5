#include "trireme/net/address.h"

#include <netdb.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/scratch_folder.h"

namespace trireme::net {
namespace {

TEST(Address, ReadsWhatItWrites) {
  for (const char* text :
       {"tcp://node7:29500",
        "tcp://127.0.0.1:0",
        "tcp://[::1]:65535",
        "unix:/tmp/a.sock",
        "unix:@name"})
    EXPECT_EQ(Address::parse(text).text(), text);
}

TEST(Address, TakesTheBracketsOffAnIPv6Number) {
  EXPECT_EQ(Address::tcp("[::1]", 7), Address::tcp("::1", 7));
  EXPECT_EQ(Address::tcp("[::1]", 7).text(), "tcp://[::1]:7");
  EXPECT_TRUE(resolve(Address::tcp("[::1]", 7)).front().stays_here());
  EXPECT_TRUE(is_loopback_name(Address::tcp("[::1]", 7).host));
  EXPECT_EQ(Address::tcp("[]", 7).host, "[]");
}

TEST(Address, RefusesAnythingElse) {
  for (const char* text :
       {"",
        "node7",
        "node7:1",
        "tcp://",
        "tcp://:1",
        "tcp://a",
        "tcp://a:",
        "tcp://a:65536",
        "tcp://a:-1",
        "tcp://a:1x",
        "tcp://::1:5",
        "tcp://[]:5",
        "tcp://[::1:5",
        "unix:",
        "http://a:1"})
    EXPECT_THROW(Address::parse(text), InvalidArgument) << text;
}

TEST(Address, KnowsWhatStaysOnThisMachine) {
  EXPECT_TRUE(resolve(Address::tcp("127.0.0.1", 1)).front().stays_here());
  EXPECT_TRUE(resolve(Address::tcp("127.8.9.1", 1)).front().stays_here());
  EXPECT_TRUE(resolve(Address::tcp("::1", 1)).front().stays_here());
  EXPECT_TRUE(resolve(Address::tcp("::ffff:127.0.0.1", 1)).front().stays_here());
  EXPECT_TRUE(resolve(Address::unix_at("@x")).front().stays_here());
  for (const char* host :
       {"0.0.0.0", "10.0.0.1", "128.0.0.1", "::", "fe80::1", "::ffff:10.0.0.1"})
    EXPECT_FALSE(resolve(Address::tcp(host, 1)).front().stays_here()) << host;
}

TEST(Address, NamesThatNobodyKnowAreRefused) {
  // Where nobody can be asked nobody can tell.
  EXPECT_THROW(resolve(Address::tcp("no-such-host.invalid", 1)), Error);
  EXPECT_THROW(throw_unknown_host("node7", EAI_NONAME), InvalidArgument);
  EXPECT_THROW(throw_unknown_host("node7", EAI_AGAIN), TimeoutError);
  EXPECT_THROW(resolve(Address::unix_at(std::string(200, 'x'))), InvalidArgument);
}

TEST(Address, SomeNamesMeanTheMachineItself) {
  for (const char* name : {"localhost", "127.0.0.1", "127.0.1.1", "::1"})
    EXPECT_TRUE(is_loopback_name(name)) << name;
  for (const char* name : {"", "node7", "10.77.0.1", "localhost.example.org", "::"})
    EXPECT_FALSE(is_loopback_name(name)) << name;
}

TEST(Address, ListensAndSaysWhere) {
  const auto socket = listen_at(resolve(Address::tcp("127.0.0.1", 0)).front(), 8);
  const Address where = local_endpoint(socket.get()).address();
  EXPECT_EQ(where.host, "127.0.0.1");
  EXPECT_GT(where.port, 0);
  EXPECT_THROW(listen_at(resolve(where).front(), 8), InvalidArgument);
}

TEST(Address, AUnixNameOfTheDeadIsTakenOver) {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "s").string();
  const auto endpoint = resolve(Address::unix_at(path)).front();
  { const auto first = listen_at(endpoint, 8); }
  struct stat status {};
  ASSERT_EQ(::lstat(path.c_str(), &status), 0);  // it has left its name behind
  const auto second = listen_at(endpoint, 8);
  EXPECT_THROW(listen_at(endpoint, 8), InvalidArgument);  // this one lives
  EXPECT_EQ(local_endpoint(second.get()).address().text(), "unix:" + path);
}

}  // namespace
}  // namespace trireme::net
