#include "trireme/launch/log_files.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <random>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::launch {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& got) {
  throw InvalidArgument(text(
      "[launch] expected to write logs to ",
      in_quotes(path.string()),
      ", got ",
      got,
      "; give a folder that this user may write to (--log-dir)"));
}

// A run id may hold anything; a file name may not.
std::string as_file_name(std::string name) {
  for (char& c : name)
    if (c == '/' || c == '\0')
      c = '_';
  if (name.starts_with('.'))
    name[0] = '_';  // no hidden folder, and no way up
  return name;
}

std::filesystem::path existing(const std::filesystem::path& log_dir) {
  std::error_code error;
  const auto base =
      log_dir.empty() ? std::filesystem::temp_directory_path(error) : log_dir;
  if (error)
    refuse("TMPDIR", error.message());
  std::filesystem::create_directories(base, error);
  if (error)
    refuse(base, error.message());
  return base;
}

// Where a folder of that name goes; in the one for temporary files it says whose it is.
std::filesystem::path run_folder(
    const std::filesystem::path& log_dir, const std::string& name) {
  return existing(log_dir) /
         text(log_dir.empty() ? "trireme-" : "", as_file_name(name));
}

std::string start_of(const std::string& run_id) {
  return run_id.substr(0, 100);
}

}  // namespace

std::filesystem::path make_run_folder(
    const std::filesystem::path& log_dir, const std::string& run_id) {
  std::string folder = run_folder(log_dir, text(start_of(run_id), "_XXXXXX")).string();
  if (::mkdtemp(folder.data()) == nullptr)
    refuse(existing(log_dir), errno_text(errno));
  return folder;
}

std::string run_folder_name(const std::string& run_id) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::string name = text(start_of(run_id), "_");
  for (int i = 0; i < 8; ++i)
    name += kLetters[random() % kLetters.size()];
  return name;
}

std::filesystem::path share_run_folder(
    const std::filesystem::path& log_dir, const std::string& name) {
  const std::filesystem::path folder = run_folder(log_dir, name);
  constexpr mode_t kMode = 0700;
  if (::mkdir(folder.c_str(), kMode) != 0 && errno != EEXIST)
    refuse(folder, errno_text(errno));
  // Not a link that somebody else has laid there.
  std::error_code error;
  if (std::filesystem::symlink_status(folder, error).type() !=
      std::filesystem::file_type::directory)
    refuse(folder, "something that is no folder");
  return folder;
}

void check_log_dir(const std::filesystem::path& log_dir) {
  const std::filesystem::path base = existing(log_dir);
  if (::access(base.c_str(), W_OK | X_OK) != 0)
    refuse(base, errno_text(errno));
}

std::filesystem::path log_file(
    const std::filesystem::path& run, int attempt, int rank, bool err) {
  return run / text("attempt_", attempt) / text(rank) /
         (err ? "stderr.log" : "stdout.log");
}

int open_log_file(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error)
    refuse(file, error.message());
  constexpr mode_t kMode = 0644;
  const int fd =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, kMode);
  if (fd < 0)
    refuse(file, errno_text(errno));
  return fd;
}

}  // namespace trireme::launch
