// A rank that does what it is told, for tests of launchers.
//
//   rank_program MARK [RANK:]STEP …
//
// MARK is there to be found in /proc. Each step is done in turn, by all ranks or by the
// one that is named; at the end the program exits with 0.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

namespace {

std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? value : "";
}

int number(const std::string& word) {
  return std::atoi(word.c_str());
}

// In one piece, so that the lines of several ranks do not mix.
void put(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR)
      ::_exit(99);
    bytes.remove_prefix(static_cast<size_t>(written > 0 ? written : 0));
  }
}

void add(std::string& line, long number_to_add) {
  line.append(" ").append(std::to_string(number_to_add));
}

void say(const std::string& line) {
  put(STDOUT_FILENO, line + "\n");
}

[[noreturn]] void hang() {
  while (true)
    ::pause();
}

void flood(int fd, int64_t bytes) {
  const std::string piece(100'000, 'x');
  for (; bytes > 0; bytes -= static_cast<int64_t>(piece.size()))
    put(fd,
        std::string_view(piece).substr(
            0, static_cast<size_t>(std::min<int64_t>(bytes, 100'000))));
}

int answer = 0;

void answer_and_exit(int) {
  ::_exit(answer);
}

void note_signal(int signal) {
  const char line[] = {
      'g', 'o', 't', ' ', char('0' + signal / 10), char('0' + signal % 10), '\n'};
  (void)!::write(STDOUT_FILENO, line, sizeof line);
}

// A process of the rank's own that no kind word ends.
void start_child(bool own_session) {
  if (::fork() != 0)
    return;
  if (own_session)
    ::setsid();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1})
    ::signal(signal, SIG_IGN);
  if (own_session)
    say("child is ready");
  hang();
}

void say_cpus() {
  cpu_set_t set;
  std::string line = "cpus";
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set))
        add(line, static_cast<long>(cpu));
  say(line);
}

// What a launcher may have changed for itself.
void say_state() {
  std::string line = "blocked";
  sigset_t blocked;
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  for (int signal = 1; signal < 32; ++signal)
    if (::sigismember(&blocked, signal) == 1)
      add(line, static_cast<long>(signal));
  line += ", ignored";
  for (int signal = 1; signal < 32; ++signal) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN)
      add(line, static_cast<long>(signal));
  }
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  line += ", files";
  add(line, static_cast<long>(files.rlim_cur));
  say(line);
}

void say_open() {
  std::string line = "open";
  for (int fd = 0; fd < 1024; ++fd)
    if (::fcntl(fd, F_GETFD) >= 0)
      add(line, static_cast<long>(fd));
  say(line);
}

bool has_variable(const std::filesystem::path& process, const std::string& name) {
  std::ifstream file(process / "environ");
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  std::string line = name;
  line.append("=").append(variable(name));
  return all.find(line) != std::string::npos;
}

// How many processes of this job are there that belong to another attempt.
void say_older() {
  int older = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error))
    older += has_variable(entry.path(), "TORCHELASTIC_RUN_ID") &&
             !has_variable(entry.path(), "TORCHELASTIC_RESTART_COUNT");
  std::string line = "older";
  add(line, older);
  say(line);
}

void copy_input() {
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(STDIN_FILENO, buffer, sizeof buffer)) > 0;)
    put(STDOUT_FILENO, {buffer, static_cast<size_t>(got)});
}

void make_file(const std::string& name) {
  ::close(::open(name.c_str(), O_CREAT | O_WRONLY, 0600));
}

void await_file(const std::string& name) {
  for (int i = 0; i < 60'000 && ::access(name.c_str(), F_OK) != 0; ++i)
    ::usleep(1000);
}

using Action = std::function<void(const std::string&)>;

const std::map<std::string, Action>& actions() {
  static const std::map<std::string, Action> all = {
      {"exit", [](const std::string& code) { ::_exit(number(code)); }},
      {"raise", [](const std::string& signal) { ::raise(number(signal)); }},
      {"hang", [](const std::string&) { hang(); }},
      {"sleep",
       [](const std::string& ms) {
         ::usleep(static_cast<useconds_t>(number(ms)) * 1000);
       }},
      {"ignore", [](const std::string& signal) { ::signal(number(signal), SIG_IGN); }},
      {"answer",
       [](const std::string& code) {
         answer = number(code);
         ::signal(SIGTERM, answer_and_exit);
       }},
      {"answer_user",
       [](const std::string& code) {
         answer = number(code);
         ::signal(SIGUSR1, answer_and_exit);
       }},
      {"note",
       [](const std::string& signal) { ::signal(number(signal), note_signal); }},
      {"say", say},
      {"error", [](const std::string& line) { put(STDERR_FILENO, line + "\n"); }},
      {"flood", [](const std::string& bytes) { flood(STDOUT_FILENO, number(bytes)); }},
      {"flood_err",
       [](const std::string& bytes) { flood(STDERR_FILENO, number(bytes)); }},
      {"child", [](const std::string&) { start_child(false); }},
      {"daemon", [](const std::string&) { start_child(true); }},
      {"other_group", [](const std::string&) { ::setpgid(0, ::getpgid(::getppid())); }},
      {"variable", [](const std::string& name) { say(name + "=" + variable(name)); }},
      {"fail_before",
       [](const std::string& attempt) {
         if (number(variable("TORCHELASTIC_RESTART_COUNT")) < number(attempt))
           ::_exit(3);
       }},
      {"hang_before",
       [](const std::string& attempt) {
         if (number(variable("TORCHELASTIC_RESTART_COUNT")) < number(attempt))
           hang();
       }},
      {"cpus", [](const std::string&) { say_cpus(); }},
      {"state", [](const std::string&) { say_state(); }},
      {"pid",
       [](const std::string&) {
         std::string line = "pid";
         add(line, ::getpid());
         say(line);
       }},
      {"older", [](const std::string&) { say_older(); }},
      {"open", [](const std::string&) { say_open(); }},
      {"input", [](const std::string&) { copy_input(); }},
      {"file", make_file},
      {"await", await_file},
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would make an exit code of it
  const std::string rank = variable("RANK");
  for (int i = 2; i < argc; ++i) {
    std::string step = argv[i];
    const size_t digits = std::min(step.find_first_not_of("0123456789"), step.size());
    if (digits > 0 && digits < step.size() && step[digits] == ':') {
      if (step.substr(0, digits) != rank)
        continue;
      step.erase(0, digits + 1);
    }
    const size_t equals = std::min(step.find('='), step.size());
    const auto found = actions().find(step.substr(0, equals));
    if (found == actions().end()) {
      put(STDERR_FILENO, "rank_program does not know " + step + "\n");
      return 98;
    }
    found->second(step.substr(std::min(equals + 1, step.size())));
  }
  return 0;
}
