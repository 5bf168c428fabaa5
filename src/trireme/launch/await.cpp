#include "trireme/launch/await.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sstream>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/segment_file.h"
#include "trireme/launch/company.h"
#include "trireme/launch/keeper.h"
#include "trireme/launch/processes.h"

namespace trireme::launch {
namespace {

// Without those that are ignored: blocked, they would come all the same.
sigset_t passed_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  const auto add = [&set](int signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      ::sigaddset(&set, signal);
  };
  for (const int signal : kStopSignals)
    add(signal);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT})
    add(signal);
  return set;
}

// One packet: a word that says what it is, the numbers, and then the text.
std::string pack(const Outcome& outcome) {
  const Failure failure = outcome.failure.value_or(Failure{.rank = -1});
  return text(
      "outcome ",
      outcome.exit_code,
      " ",
      outcome.restarts,
      " ",
      failure.rank,
      " ",
      failure.ending.exit_code,
      " ",
      failure.ending.signal,
      " ",
      failure.ending.core_dumped,
      "\n",
      failure.last_lines);
}

Outcome unpack(const std::string& packet) {
  std::istringstream in(packet.substr(0, packet.find('\n')));
  std::string word;
  Outcome outcome;
  Failure failure;
  in >> word >> outcome.exit_code >> outcome.restarts >> failure.rank >>
      failure.ending.exit_code >> failure.ending.signal >> failure.ending.core_dumped;
  if (!in || word != "outcome")
    throw Error(packet);
  failure.last_lines = packet.substr(packet.find('\n') + 1);
  if (failure.rank >= 0)
    outcome.failure = std::move(failure);
  return outcome;
}

void send_packet(int socket, const std::string& packet) {
  const size_t bytes = std::min(packet.size(), kMostPacket);
  // If it cannot be sent, nobody is there to be told.
  (void)::send(socket, packet.data(), bytes, MSG_NOSIGNAL);
}

void pass_signals(const KeeperLink& link) {
  signalfd_siginfo info{};
  while (::read(link.signals, &info, sizeof info) ==
         static_cast<ssize_t>(sizeof info)) {
    int signal = static_cast<int>(info.ssi_signo);
    // Ctrl-Z: the ranks, which have no terminal, stop first, and then we do. To other
    // nodes a launcher that is suspended would be lost.
    if (link.company != nullptr && (signal == SIGTSTP || signal == SIGCONT))
      continue;
    const bool suspend = signal == SIGTSTP;
    if (suspend)
      signal = SIGSTOP;
    (void)::send(link.socket, &signal, sizeof signal, MSG_NOSIGNAL);
    if (suspend)
      ::raise(SIGSTOP);
  }
}

int poll_time(const Company* company) {
  const auto wake = company != nullptr ? company->wake() : std::nullopt;
  if (!wake)
    return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      *wake - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

// The keeper's last packet; empty if it has died without one.
std::string await_packet(const KeeperLink& link) {
  while (true) {
    std::vector<pollfd> waits = {
        pollfd{.fd = link.socket, .events = POLLIN, .revents = 0},
        pollfd{.fd = link.signals, .events = POLLIN, .revents = 0}};
    if (link.company != nullptr)
      link.company->add_waits(waits);
    if (::poll(waits.data(), waits.size(), poll_time(link.company)) < 0)
      continue;
    if (waits[1].revents != 0)
      pass_signals(link);
    if (link.company != nullptr)
      link.company->attend(link.socket);
    if (waits[0].revents == 0)
      continue;
    std::string packet(kMostPacket, '\0');
    const ssize_t got = ::recv(link.socket, packet.data(), packet.size(), 0);
    // A keeper that has ended before it read all of ours: the system says so once, and
    // then gives what the keeper has sent.
    if (got < 0 && (errno == EINTR || errno == ECONNRESET))
      continue;
    packet.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
    if (link.company == nullptr || !is_word(packet))
      return packet;
    link.company->told(decode_word(packet));
  }
}

}  // namespace

SignalScope::SignalScope() : before_(ProcessState::now()) {
  const sigset_t set = passed_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) {
    ::pthread_sigmask(SIG_SETMASK, &before_.signals, nullptr);
    throw Error(text(
        "[launch] expected a signalfd, got ", errno_text(errno), "; raise ulimit -n"));
  }
}

SignalScope::~SignalScope() {
  // What came too late to be passed on: a wish to stop is meant for the program, too;
  // the others were for ranks alone.
  std::vector<int> late;
  signalfd_siginfo info{};
  while (::read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    if (is_stop_signal(static_cast<int>(info.ssi_signo)))
      late.push_back(static_cast<int>(info.ssi_signo));
  ::close(fd_);
  // Only what this scope has changed, and perhaps nobody else.
  ::pthread_sigmask(SIG_SETMASK, &before_.signals, nullptr);
  for (const int signal : late)
    ::raise(signal);
}

Outcome await_outcome(const KeeperLink& link) {
  const std::string packet = await_packet(link);
  ::close(link.socket);
  // Not reaped yet, its number stays its own, and that of its session.
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(link.keeper), &info, WEXITED | WNOWAIT) <
             0 &&
         errno == EINTR) {
  }
  // The ranks have died with their keeper; their children are still in its session.
  if (packet.empty()) {
    end_session(link.keeper, Deadline::after(std::chrono::seconds(5)));
    remove_stale_segments();
  }
  int status = 0;
  while (::waitpid(link.keeper, &status, 0) < 0 && errno == EINTR) {
  }
  if (!packet.empty())
    return unpack(packet);
  throw Error(text(
      "[launch] expected the outcome of the job, got none: the process that kept its "
      "ranks ",
      WIFSIGNALED(status) ? text("was ended by ", signal_name(WTERMSIG(status)))
                          : text("exited with code ", WEXITSTATUS(status)),
      "; all ranks have been ended"));
}

void send_outcome(int socket, const Outcome& outcome) {
  send_packet(socket, pack(outcome));
}

void send_error(int socket, const std::string& what) {
  send_packet(socket, what);
}

}  // namespace trireme::launch
