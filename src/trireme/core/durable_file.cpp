#include "trireme/core/durable_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme {
namespace {

// Linux moves at most 2 GiB less a page in one call; less keeps it interruptible.
constexpr size_t kMostAtOnce = size_t{64} << 20;

const char* remedy_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "make room, or keep fewer checkpoints";
    case EFBIG:
      return "raise the limit on file sizes (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a folder that this user may write to";
    case EMFILE:
      return "raise the limit on open files (ulimit -n)";
    default:
      return "check the path and the disk";
  }
}

[[noreturn]] void fail_to_read(const std::filesystem::path& path, const char* what) {
  const int code = errno;
  throw InvalidArgument(text(
      "[core] expected to ",
      what,
      " ",
      in_quotes(path.string()),
      ", got ",
      errno_text(code),
      "; ",
      code == EMFILE ? remedy_for(code) : "check the path and its permissions"));
}

}  // namespace

DurableFile::DurableFile(const std::filesystem::path& path) : path_(path) {
  temporary_ = path_;
  temporary_ += text(".tmp-", ::getpid(), "-", ::gettid());
  // What a killed process of this number may have left would be in the way.
  ::unlink(temporary_.c_str());
  fd_ = ::open(
      temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0)
    fail("make", errno);
}

DurableFile::~DurableFile() {
  if (fd_ < 0)
    return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void DurableFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      fail("write", errno);
    bytes.remove_prefix(static_cast<size_t>(put));
    bytes_ += static_cast<uint64_t>(put);
  }
}

void DurableFile::finish() {
  if (::fsync(fd_) != 0)
    fail("sync", errno);
  const int fd = std::exchange(fd_, -1);
  const bool closed = ::close(fd) == 0;
  if (closed && ::rename(temporary_.c_str(), path_.c_str()) == 0)
    return;
  const int code = errno;
  ::unlink(temporary_.c_str());
  fail("finish", code);
}

void DurableFile::fail(const char* what, int code) const {
  throw InvalidArgument(text(
      "[core] expected to ",
      what,
      " ",
      in_quotes(path_.string()),
      ", got ",
      errno_text(code),
      "; ",
      remedy_for(code)));
}

uint64_t write_durably(const std::filesystem::path& path, std::string_view bytes) {
  DurableFile file(path);
  file.write(bytes);
  file.finish();
  return file.bytes();
}

bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view kForbidden("/\0", 2);
  return !name.empty() && name != "." &&
         name.find_first_of(kForbidden) == std::string_view::npos &&
         name.find("..") == std::string_view::npos;
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    fail_to_read(folder, "open");
  const int code = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (code == EIO || code == ENOSPC || code == EDQUOT) {
    errno = code;
    fail_to_read(folder, "sync");
  }
}

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0)
    fail_to_read(path, "open");
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    throw InvalidArgument(text(
        "[core] expected a file at ",
        in_quotes(path.string()),
        ", got a folder or a device; give the path of a file"));
  }
  bytes_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_) {}

void InputFile::read(void* into, uint64_t bytes, uint64_t offset) const {
  auto* to = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::pread(
        fd_, to, std::min<uint64_t>(bytes, kMostAtOnce), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      fail_to_read(path_, "read");
    if (got == 0)
      throw InvalidArgument(text(
          "[core] ",
          in_quotes(path_.string()),
          ": expected ",
          bytes,
          " bytes more, got the end of the file; somebody has cut it meanwhile"));
    to += got;
    bytes -= static_cast<uint64_t>(got);
    offset += static_cast<uint64_t>(got);
  }
}

std::string read_file(const std::filesystem::path& path, uint64_t most) {
  const InputFile file(path);
  if (file.bytes() > most)
    throw InvalidArgument(text(
        "[core] ",
        in_quotes(path.string()),
        ": expected at most ",
        most,
        " bytes, got ",
        file.bytes(),
        "; is it the file that its name says?"));
  std::string content(file.bytes(), '\0');
  file.read(content.data(), content.size(), 0);
  return content;
}

}  // namespace trireme
