#include "trireme/ckpt/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "trireme/ckpt/manifest.h"
#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/log.h"
#include "trireme/core/parse_number.h"

namespace trireme::ckpt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";
constexpr std::string_view kUnfinished = "tmp", kAside = "old", kPruned = "gone";
constexpr size_t kIdLetters = 16;
constexpr int kAttempts = 100;
constexpr int kMostAside = 10'000;

[[noreturn]] void fail(const char* what, const fs::path& path, const std::string& got) {
  throw InvalidArgument(text(
      "[ckpt] expected to ",
      what,
      " ",
      in_quotes(path.string()),
      ", got ",
      got,
      "; check the path and its permissions"));
}

std::string fresh_id() {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  std::string id(kIdLetters, '0');
  for (size_t i = 0; i < kIdLetters; ++i)
    id[i] = "0123456789abcdef"[(number >> (4 * i)) & 15];
  return id;
}

// ".step-12.tmp-0123456789abcdef"
std::string hidden_name(int64_t step, std::string_view kind) {
  return text(".", step_name(step), ".", kind, "-", fresh_id());
}

struct Hidden {
  int64_t step = 0;
  std::string_view kind;
};

std::optional<Hidden> parse_hidden_name(std::string_view name) {
  const size_t dot = name.find('.', 1);
  if (!name.starts_with('.') || dot == std::string_view::npos)
    return std::nullopt;
  const auto step = parse_step_name(name.substr(1, dot - 1));
  const std::string_view tail = name.substr(dot + 1);
  const size_t dash = tail.find('-');
  if (!step || dash == std::string_view::npos)
    return std::nullopt;
  const std::string_view id = tail.substr(dash + 1);
  if (id.size() != kIdLetters ||
      id.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  for (const std::string_view kind : {kUnfinished, kAside, kPruned})
    if (tail.substr(0, dash) == kind)
      return Hidden{*step, kind};
  return std::nullopt;
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kManifestName, ignored);
}

bool is_real_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::directory;
}

// A rank that does not know yet that the save has failed may still put a file there.
void remove_folder(const fs::path& folder) {
  std::error_code error;
  for (int attempt = 0; attempt < 3; ++attempt) {
    fs::remove_all(folder, error);
    if (!error)
      return;
  }
  TRIREME_LOG(warn, "ckpt") << "expected to remove " << in_quotes(folder.string())
                            << ", got " << error.message();
}

bool is_abandoned(const fs::path& folder) {
  const FolderLock lock(folder);
  if (lock.state() != FolderLock::State::Unknown)
    return lock.state() == FolderLock::State::Held;
  std::error_code error;
  const auto touched = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - touched > std::chrono::hours(24);
}

void remove_leftover(const fs::path& root, const fs::path& folder, const Hidden& what) {
  if (!is_abandoned(folder))
    return;
  const fs::path place = root / step_name(what.step);
  if (what.kind == kAside && !is_real_folder(place)) {
    if (::rename(folder.c_str(), place.c_str()) == 0)
      return;
  }
  remove_folder(folder);
}

}  // namespace

std::string step_name(int64_t step) {
  return text(kStep, step);
}

std::optional<int64_t> parse_step_name(std::string_view name) {
  if (!name.starts_with(kStep))
    return std::nullopt;
  const auto step = parse_number<int64_t>(name.substr(kStep.size()));
  if (!step || *step < 0 || step_name(*step) != name)
    return std::nullopt;
  return step;
}

TemporaryFolder::TemporaryFolder(const fs::path& root, int64_t step)
    : root_(root), step_(step) {
  std::error_code error;
  const bool fresh = fs::create_directories(root, error);
  if (error || !fs::is_directory(root, error))
    fail("make the folder", root, error ? error.message() : "something else there");
  if (fresh)
    sync_folder((fs::absolute(root) / "").parent_path().parent_path());
  const fs::path target = root / step_name(step);
  if (fs::symlink_status(target, error).type() != fs::file_type::not_found &&
      !(is_real_folder(target) && is_checkpoint(target)))
    throw InvalidArgument(text(
        "[ckpt] expected a free place or a checkpoint at ",
        in_quotes(target.string()),
        ", got something else; move it away, or choose another folder"));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const fs::path path = root / hidden_name(step, kUnfinished);
    if (::mkdir(path.c_str(), 0777) != 0)
      fail("make the folder", path, errno_text(errno));
    FolderLock lock(path);
    // Between the two calls another run may have taken it for a leftover.
    if (lock.state() == FolderLock::State::Busy)
      continue;
    path_ = path;
    lock_.emplace(std::move(lock));
    return;
  }
  fail("make a folder in", root, "it removed by somebody each time");
}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty())
    remove_folder(path_);
}

void TemporaryFolder::publish(Replace how) {
  const fs::path target = root_ / step_name(step_);
  if (is_real_folder(target))
    replace(target, how);
  else if (::rename(path_.c_str(), target.c_str()) != 0)
    fail("give its name to", target, errno_text(errno));
  else
    path_.clear();
  sync_folder(root_);
}

// After an exchange the former checkpoint lies under our temporary name, and goes with
// this object.
void TemporaryFolder::replace(const fs::path& target, Replace how) {
  if (how == Replace::Exchange) {
    const int here = AT_FDCWD;
    if (::renameat2(here, path_.c_str(), here, target.c_str(), RENAME_EXCHANGE) == 0)
      return;
    if (errno != EINVAL && errno != ENOSYS)
      fail("replace", target, errno_text(errno));
  }
  const FolderLock lock(target);  // held, nobody brings it back before we are done
  const fs::path aside = root_ / hidden_name(step_, kAside);
  if (::rename(target.c_str(), aside.c_str()) != 0)
    fail("put aside", target, errno_text(errno));
  if (::rename(path_.c_str(), target.c_str()) != 0) {
    const int code = errno;
    ::rename(aside.c_str(), target.c_str());
    fail("give its name to", target, errno_text(code));
  }
  sync_folder(root_);
  path_ = aside;
}

void remove_leftovers(const fs::path& root) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(root, error), end; !error && it != end;
       it.increment(error))
    found.push_back(it->path());
  for (const fs::path& path : found) {
    const std::string name = path.filename().string();
    const auto what = parse_hidden_name(name);
    if (what && is_real_folder(path))
      remove_leftover(root, path, *what);
  }
}

void prune_checkpoints(const fs::path& root, int keep, int64_t newest) {
  if (keep == 0)
    return;
  std::vector<int64_t> steps = checkpoint_steps(root);
  std::erase(steps, newest);
  const size_t spared = std::min(steps.size(), static_cast<size_t>(keep - 1));
  steps.resize(steps.size() - spared);
  for (const int64_t step : steps) {
    const fs::path place = root / step_name(step);
    const fs::path gone = root / hidden_name(step, kPruned);
    if (::rename(place.c_str(), gone.c_str()) == 0)
      remove_folder(gone);
    else
      TRIREME_LOG(warn, "ckpt") << "expected to remove " << in_quotes(place.string())
                                << ", got " << errno_text(errno);
  }
}

std::vector<fs::path> set_later_aside(const fs::path& root, int64_t step) {
  std::vector<fs::path> moved;
  for (const int64_t later : checkpoint_steps(root)) {
    if (later <= step)
      continue;
    const fs::path place = root / step_name(later);
    fs::path aside;
    for (int number = 1; number < kMostAside; ++number) {
      aside = root / text(step_name(later), ".aside-", number);
      if (std::error_code ignored; !fs::exists(aside, ignored))
        break;
    }
    // A folder never takes the place of one that is not empty.
    if (::rename(place.c_str(), aside.c_str()) != 0)
      fail("set aside", place, errno_text(errno));
    moved.push_back(aside);
  }
  if (!moved.empty())
    sync_folder(root);
  return moved;
}

std::vector<int64_t> checkpoint_steps(const fs::path& root) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end;
       it.increment(error))
    if (const auto step = parse_step_name(it->path().filename().string());
        step && is_checkpoint(it->path()))
      steps.push_back(*step);
  // A folder that cannot be read must not pass for a run that has not begun.
  if (error && error != std::errc::no_such_file_or_directory)
    fail("read", root, error.message());
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace trireme::ckpt
