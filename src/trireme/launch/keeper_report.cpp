// What a keeper says about a failure.
#include <array>
#include <fcntl.h>
#include <iomanip>
#include <unistd.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/launch/keeper.h"
#include "trireme/launch/log_files.h"
#include "trireme/launch/rounds.h"

namespace trireme::launch {
namespace {

constexpr int kReportLines = 10;

}  // namespace

// "4", or "4 (server 0)" where a job has several programs.
std::string Keeper::name_of(int rank) const {
  const std::string number = text(world_rank(rank));
  if (!several_programs())
    return number;
  const LaunchRole role = role_of(plan_.roles, rank);
  return text(number, " (", role.name, " ", role.rank, ")");
}

void Keeper::note_failure() {
  noted_ = true;
  elsewhere_ = false;
  failure_ = *job_.failure();
  failure_->last_lines = stderr_end(failure_->rank);
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  std::string others;
  for (const int rank : job_.failed())
    if (rank != failure_->rank)
      others += text(others.empty() ? "" : ", ", name_of(rank));
  report_ = text(
      "rank ",
      name_of(failure_->rank),
      " of ",
      place_.ranks_in_all,
      led_ ? text(", on ", node_text(place_.node, host_name()), ",") : "",
      " ",
      to_string(failure_->ending),
      " after ",
      std::fixed,
      std::setprecision(1),
      seconds,
      " s");
  failure_->rank = world_rank(failure_->rank);
  if (!others.empty())
    report_ += text("; at the same moment failed: ", others);
  others_left_ = job_.left() > 0 || place_.ranks_in_all > plan_.options.ranks;
  if (led_)
    tell({.kind = Word::Kind::Failed, .text = report_, .failure = *failure_});
}

// What follows from a failure.
std::string Keeper::consequence() const {
  if (job_.will_restart())
    return text(
        "; all ranks are started again",
        elsewhere_ && !failure_ ? " when enough nodes are there" : "",
        " (restart ",
        job_.attempt() + 1,
        " of ",
        led_ ? place_.max_restarts : plan_.options.max_restarts,
        ")");
  if (!others_left_)
    return {};
  return elsewhere_ ? "; the ranks here are stopped" : "; the other ranks are stopped";
}

// Tells it when the others have had their moment: of a rank that was killed only they
// can say something.
void Keeper::report_failure() {
  if (report_.empty())
    return;
  const std::string report = std::exchange(report_, {}) + consequence();
  if (!failure_)
    return say(report);
  if (failure_->ending.exit_code == kResumable) {
    // It has said itself why, and what it wrote is no trouble.
    say(report + "; it can go on from what it saved");
    return;
  }
  if (!failure_->last_lines.empty()) {
    say(report + "; the end of its stderr:");
    err_.add(indented(failure_->last_lines, "    "));
    return;
  }
  for (const int rank : job_.followed())
    if (const std::string lines = stderr_end(rank); !lines.empty()) {
      say(text(
          report,
          "; it wrote nothing to stderr, but rank ",
          name_of(rank),
          " then did:"));
      err_.add(indented(lines, "    "));
      return;
    }
  say(report + "; it wrote nothing to stderr");
}

std::string Keeper::stderr_end(int rank) const {
  const Options& options = plan_.options;
  if (options.tee.of(rank).err || !options.redirects.of(rank).err)
    return relay_.last_lines(rank, kReportLines);
  const auto path = log_file(run_folder_, job_.attempt(), world_rank(rank), true);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return {};
  std::array<char, Tail::kMostBytes> bytes;
  const off_t size = ::lseek(file, 0, SEEK_END);
  const ssize_t got = ::pread(
      file,
      bytes.data(),
      bytes.size(),
      std::max<off_t>(0, size - off_t{Tail::kMostBytes}));
  ::close(file);
  Tail tail;
  tail.add({bytes.data(), static_cast<size_t>(std::max<ssize_t>(0, got))});
  return tail.last_lines(kReportLines);
}

}  // namespace trireme::launch
