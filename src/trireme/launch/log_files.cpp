#include "trireme/launch/log_files.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>

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
std::string as_file_name(const std::string& run_id) {
  std::string name = run_id.substr(0, 100);
  for (char& c : name)
    if (c == '/' || c == '\0')
      c = '_';
  if (name.starts_with('.'))
    name[0] = '_';  // no hidden folder, and no way up
  return name;
}

}  // namespace

std::filesystem::path make_run_folder(
    const std::filesystem::path& log_dir, const std::string& run_id) {
  std::error_code error;
  const auto base =
      log_dir.empty() ? std::filesystem::temp_directory_path(error) : log_dir;
  if (error)
    refuse("TMPDIR", error.message());
  std::filesystem::create_directories(base, error);
  if (error)
    refuse(base, error.message());
  std::string folder =
      (base / text(log_dir.empty() ? "trireme-" : "", as_file_name(run_id), "_XXXXXX"))
          .string();
  if (::mkdtemp(folder.data()) == nullptr)
    refuse(base, errno_text(errno));
  return folder;
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
