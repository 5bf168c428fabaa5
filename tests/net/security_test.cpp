#include "trireme/net/security.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "stream_pair.h"
#include "trireme/net/tls.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::net {
namespace {

Endpoint ipv4(const char* host) {
  Endpoint endpoint;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = ::htons(29500);
  ::inet_pton(AF_INET, host, &address.sin_addr);
  std::memcpy(&endpoint.storage, &address, sizeof address);
  endpoint.length = sizeof address;
  return endpoint;
}

std::string refusal_from(const Environment& env) {
  return testing::message_of<InvalidArgument>(
      [&env] { (void)Security::from_environment(env); });
}

TEST(Security, RefusesEverythingUntilSomethingIsChosen) {
  const Security none;
  EXPECT_FALSE(none.encrypted());
  EXPECT_EQ(none.text(), "nothing chosen");
  for (const char* host : {"127.0.0.1", "10.0.0.1"}) {
    const std::string message =
        testing::message_of<InvalidArgument>([&] { none.check_allowed(ipv4(host)); });
    EXPECT_TRUE(testing::contains(message, "TRIREME_JOB_KEY_FILE"));
    EXPECT_TRUE(testing::contains(message, "insecure-loopback"));
  }
  EXPECT_THROW((void)none.protect(unix_sockets().first, Side::Dialer), InvalidArgument);
}

TEST(Security, LeavesNoMachineUnprotected) {
  const Security plain = Security::insecure_loopback();
  EXPECT_FALSE(plain.encrypted());
  EXPECT_EQ(plain.text(), "nothing (insecure-loopback)");
  plain.check_allowed(ipv4("127.0.0.1"));
  for (const char* host : {"10.0.0.1", "0.0.0.0", "192.168.1.1", "8.8.8.8"}) {
    const std::string message =
        testing::message_of<InvalidArgument>([&] { plain.check_allowed(ipv4(host)); });
    EXPECT_TRUE(testing::contains(message, host));
    EXPECT_TRUE(testing::contains(message, "use a job key"));
  }
}

// Where a dialer goes is known only when it is there.
TEST(Security, ChecksADialerOnceItIsConnected) {
  const auto new_socket = [] {
    return FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  };
  EXPECT_THROW((void)Security().protect(new_socket(), Side::Dialer), InvalidArgument);
  const auto stream = Security::insecure_loopback().protect(new_socket(), Side::Dialer);
  EXPECT_THROW((void)stream->handshake(), InvalidArgument);
}

TEST(Security, PlainStreamsWorkOnThisMachine) {
  const Security plain = Security::insecure_loopback();
  StreamPair over_unix = connected_streams(plain);
  EXPECT_TRUE(they_talk(over_unix));
  StreamPair over_tcp = connected_streams(plain, tcp_sockets());
  EXPECT_TRUE(they_talk(over_tcp));
}

// The other end of a Unix socket as another user would be: made by a child that has
// become one.
TEST(SecurityProcs, RefusesOtherUsersOnUnixSockets) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can become another user";
  const FileDescriptor listener(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string path = text("@trireme-security-test-", ::getpid());
  std::memcpy(name.sun_path + 1, path.data() + 1, path.size() - 1);
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  auto* plain = reinterpret_cast<sockaddr*>(&name);
  ASSERT_EQ(::bind(listener.get(), plain, length), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  for (const uid_t user : {uid_t{0}, uid_t{12345}}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
      const bool connected = (user == 0 || ::setresuid(user, user, user) == 0) &&
                             ::connect(fd, plain, length) == 0;
      ::_exit(connected ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    FileDescriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_GE(accepted.get(), 0);
    const Security security = Security::insecure_loopback();
    if (user == 0) {
      EXPECT_NE(security.protect(std::move(accepted), Side::Acceptor), nullptr);
      continue;
    }
    const std::string message = testing::message_of<Error>(
        [&] { (void)security.protect(std::move(accepted), Side::Acceptor); });
    EXPECT_TRUE(testing::contains(message, "got one of user 12345"));
  }
}

TEST(Security, ComesFromTheEnvironment) {
  const auto plain =
      Security::from_environment({{"TRIREME_SECURITY", "insecure-loopback"}});
  EXPECT_EQ(plain.text(), "nothing (insecure-loopback)");
  if (!has_tls())
    return;
  const testing::ScratchFolder folder;
  const JobKey key = JobKey::random();
  const std::string path = (folder.path() / "job.key").string();
  key.write(path);
  for (const Environment& env :
       {Environment{{"TRIREME_JOB_KEY", key.text()}},
        Environment{{"TRIREME_JOB_KEY_FILE", path}}}) {
    const auto security = Security::from_environment(env);
    EXPECT_TRUE(security.encrypted());
    EXPECT_EQ(security.text(), "a job key (fingerprint " + key.fingerprint() + ")");
  }
}

TEST(Security, NamesContradictionsOfTheEnvironment) {
  const std::string key = JobKey::random().text();
  const Environment::Variables files{
      {"TRIREME_CA_FILE", "/ca.pem"},
      {"TRIREME_CERTIFICATE_FILE", "/w.pem"},
      {"TRIREME_PRIVATE_KEY_FILE", "/w.key"}};
  const std::vector<Environment::Variables> contradictions{
      {{"TRIREME_JOB_KEY", key}, {"TRIREME_JOB_KEY_FILE", "/job.key"}},
      {{"TRIREME_SECURITY", "insecure-loopback"}, {"TRIREME_JOB_KEY", key}},
      {{"TRIREME_SECURITY", "insecure-loopback"}, {"TRIREME_JOB_KEY_FILE", "/job.key"}},
      {{"TRIREME_SECURITY", "insecure-loopback"}, *files.begin()},
      {{"TRIREME_JOB_KEY", key}, *files.begin()}};
  for (const auto& variables : contradictions) {
    const std::string message = refusal_from(Environment(variables));
    EXPECT_TRUE(testing::contains(message, "unset all but one"));
    EXPECT_FALSE(testing::contains(message, key)) << message;
    for (const auto& [name, value] : variables)
      EXPECT_TRUE(testing::contains(message, name));
  }
  for (const auto& [left_out, value] : files) {
    Environment::Variables some = files;
    some.erase(left_out);
    EXPECT_TRUE(testing::contains(refusal_from(Environment(some)), "set all three"));
  }
}

TEST(Security, SaysWhatToSetInTheEnvironment) {
  EXPECT_TRUE(testing::contains(refusal_from({}), "trireme keys job"));
  EXPECT_TRUE(testing::contains(
      refusal_from({{"TRIREME_SECURITY", "none"}}), "got \"none\"; unset it"));
  for (const char* name :
       {"TRIREME_SECURITY", "TRIREME_JOB_KEY", "TRIREME_JOB_KEY_FILE"})
    EXPECT_FALSE(refusal_from({{name, ""}}).empty()) << name;
  EXPECT_TRUE(testing::contains(
      refusal_from({{"TRIREME_JOB_KEY_FILE", "/nowhere/job.key"}}),
      "/nowhere/job.key"));
}

TEST(Security, KeepsTheKeyOutOfItsMessages) {
  const std::string key = JobKey::random().text();
  for (const std::string& wrong : {key + "0", key.substr(1), "0x" + key}) {
    const std::string message = refusal_from({{"TRIREME_JOB_KEY", wrong}});
    EXPECT_FALSE(testing::contains(message, key.substr(8, 8))) << message;
  }
  const std::string message = refusal_from({{"TRIREME_JOB_KEY_FILE", key}});
  EXPECT_FALSE(testing::contains(message, key.substr(8, 8))) << message;
}

}  // namespace
}  // namespace trireme::net
