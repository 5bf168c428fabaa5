#include "trireme/net/security.h"

#include <array>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/list_names.h"
#include "trireme/net/tls.h"

namespace trireme::net {
namespace {

constexpr const char* kWhatToSet =
    "set TRIREME_JOB_KEY_FILE (trireme keys job makes one), or TRIREME_CA_FILE, "
    "TRIREME_CERTIFICATE_FILE and TRIREME_PRIVATE_KEY_FILE, or on one machine "
    "TRIREME_SECURITY=insecure-loopback";

// Nobody else may connect to a job's Unix socket: its name in the abstract space,
// unlike a file, has no owner.
void check_same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    throw Error(text(
        "[net] expected to learn the user at the other end of a Unix socket, got ",
        errno_text(errno),
        "; use a job key"));
  if (peer.uid != ::geteuid() && peer.uid != 0)
    throw Error(text(
        "[net] expected a peer of user ",
        ::geteuid(),
        " at the other end of a Unix socket, got one of user ",
        peer.uid,
        "; run all workers as one user, or use a job key"));
}

void check_stays_here(const Endpoint& endpoint) {
  if (!endpoint.stays_here())
    throw InvalidArgument(text(
        "[net] expected an address of this machine for connections that nothing "
        "protects (insecure-loopback), got ",
        endpoint.address().text(),
        "; use a job key (trireme keys job) or certificates"));
}

// Whether a connected socket may go without protection.
void check_plain_peer(int fd) {
  const Endpoint peer = peer_endpoint(fd);
  check_stays_here(peer);
  if (peer.family() == AF_UNIX)
    check_same_user(fd);
}

[[noreturn]] void refuse_unchosen() {
  throw InvalidArgument(text(
      "[net] expected to be told what protects connections, got nothing; give the node "
      "a "
      "Security, as that of Security::from_environment(), and ",
      kWhatToSet));
}

// Which of the ways to choose a protection are set, by name.
struct Choices {
  explicit Choices(const Environment& env) {
    for (const char* name : {"TRIREME_SECURITY"})
      add(env, name, plain);
    for (const char* name : {"TRIREME_JOB_KEY", "TRIREME_JOB_KEY_FILE"})
      add(env, name, keys);
    for (const char* name :
         {"TRIREME_CA_FILE", "TRIREME_CERTIFICATE_FILE", "TRIREME_PRIVATE_KEY_FILE"})
      add(env, name, certificates);
  }

  std::vector<std::string> all() const {
    std::vector<std::string> names = plain;
    names.insert(names.end(), keys.begin(), keys.end());
    names.insert(names.end(), certificates.begin(), certificates.end());
    return names;
  }

  std::vector<std::string> plain, keys, certificates;

 private:
  static void add(
      const Environment& env, const char* name, std::vector<std::string>& names) {
    if (env.has(name))
      names.emplace_back(name);
  }
};

void check_one_choice(const Choices& set) {
  const int ways = static_cast<int>(!set.plain.empty()) +
                   static_cast<int>(!set.keys.empty()) +
                   static_cast<int>(!set.certificates.empty());
  if (ways == 0)
    throw InvalidArgument(text(
        "[net] expected to be told what protects connections, got nothing; ",
        kWhatToSet));
  if (ways > 1 || set.keys.size() > 1)
    throw InvalidArgument(text(
        "[net] expected one way to protect connections, got ",
        list_names(set.all()),
        " at once; unset all but one"));
  if (!set.certificates.empty() && set.certificates.size() != 3)
    throw InvalidArgument(text(
        "[net] expected TRIREME_CA_FILE, TRIREME_CERTIFICATE_FILE and "
        "TRIREME_PRIVATE_KEY_FILE together, got only ",
        list_names(set.certificates),
        "; set all three (trireme keys worker prints them)"));
}

}  // namespace

Security Security::job_key(const JobKey& key) {
  Security security;
  security.context_ = TlsContext::of_job_key(key);
  return security;
}

Security Security::certificates(const CertificateFiles& files) {
  Security security;
  security.context_ = TlsContext::of_certificates(files);
  return security;
}

Security Security::insecure_loopback() {
  Security security;
  security.insecure_loopback_ = true;
  return security;
}

Security Security::from_environment(const Environment& env) {
  const Choices set(env);
  check_one_choice(set);
  if (env.has("TRIREME_JOB_KEY"))
    return job_key(JobKey::parse(*env.find("TRIREME_JOB_KEY")));
  if (env.has("TRIREME_JOB_KEY_FILE"))
    return job_key(JobKey::read(env.string("TRIREME_JOB_KEY_FILE")));
  if (!set.certificates.empty())
    return certificates(
        {.authority = env.string("TRIREME_CA_FILE"),
         .certificate = env.string("TRIREME_CERTIFICATE_FILE"),
         .private_key = env.string("TRIREME_PRIVATE_KEY_FILE")});
  const std::string word = env.string("TRIREME_SECURITY");
  if (word != "insecure-loopback")
    throw InvalidArgument(trireme::text(
        "[net] expected TRIREME_SECURITY to be insecure-loopback, got ",
        in_quotes(word),
        "; unset it to use a key or certificates"));
  return insecure_loopback();
}

void Security::check_allowed(const Endpoint& endpoint) const {
  if (encrypted())
    return;
  if (!insecure_loopback_)
    refuse_unchosen();
  check_stays_here(endpoint);
}

std::unique_ptr<Stream> Security::protect(FileDescriptor socket, Side side) const {
  if (encrypted())
    return context_->stream(std::move(socket), side);
  if (!insecure_loopback_)
    refuse_unchosen();
  // A dialer's socket may have no peer yet.
  if (peer_endpoint(socket.get()).length == 0)
    return plain_stream(std::move(socket), check_plain_peer);
  check_plain_peer(socket.get());
  return plain_stream(std::move(socket));
}

std::string Security::text() const {
  if (encrypted())
    return context_->text();
  return insecure_loopback_ ? "nothing (insecure-loopback)" : "nothing chosen";
}

}  // namespace trireme::net
