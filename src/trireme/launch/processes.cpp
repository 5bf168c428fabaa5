#include "trireme/launch/processes.h"

#include <charconv>
#include <csignal>
#include <filesystem>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::launch {
namespace {

constexpr auto kPause = std::chrono::milliseconds(1);

// Whether there is a child left; those that have ended are reaped.
bool has_children() {
  pid_t pid = 0;
  do
    pid = ::waitpid(-1, nullptr, WNOHANG);
  while (pid > 0);
  return pid == 0;
}

}  // namespace

std::vector<pid_t> find_processes(
    const std::function<bool(pid_t, const ProcessStat&)>& chosen) {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end;
       !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc())
      continue;
    const auto stat =
        parse_process_stat(read_text_file(text("/proc/", pid, "/stat")).value_or(""));
    if (stat && !stat->ended() && chosen(pid, *stat))
      found.push_back(pid);
  }
  return found;
}

int end_children(const Deadline& deadline) {
  const pid_t self = ::getpid();
  std::set<pid_t> ended;
  while (has_children() && !deadline.expired()) {
    const auto left = find_processes(
        [self](pid_t, const ProcessStat& stat) { return stat.parent == self; });
    for (const pid_t pid : left) {
      ::kill(pid, SIGKILL);
      ended.insert(pid);
    }
    std::this_thread::sleep_for(kPause);
  }
  return static_cast<int>(ended.size());
}

void end_session(pid_t session, const Deadline& deadline) {
  while (true) {
    const auto left = find_processes(
        [session](pid_t, const ProcessStat& stat) { return stat.session == session; });
    for (const pid_t pid : left)
      ::kill(pid, SIGKILL);
    if (left.empty() || deadline.expired())
      return;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace trireme::launch
