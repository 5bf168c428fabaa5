#include "trireme/net/secret_file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <string.h>  // explicit_bzero
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/file_descriptor.h"

namespace trireme::net {
namespace {

[[noreturn]] void refuse_secret(
    const std::filesystem::path& path,
    const std::string& what,
    const std::string& got,
    const std::string& remedy) {
  throw InvalidArgument(text(
      "[net] expected a regular file that holds ",
      what,
      " and that only its owner may read at ",
      in_quotes(path.string()),
      ", got ",
      got,
      "; ",
      remedy));
}

std::string octal(mode_t mode) {
  char digits[8];
  std::snprintf(digits, sizeof digits, "%04o", static_cast<unsigned>(mode & 07777));
  return digits;
}

// What is open, not what has the name now: that may be another file by then.
std::size_t check_secret(
    int fd,
    const std::filesystem::path& path,
    const std::string& what,
    std::size_t most) {
  struct stat status {};
  if (::fstat(fd, &status) != 0)
    refuse_secret(path, what, errno_text(errno), "check the path");
  if (!S_ISREG(status.st_mode))
    refuse_secret(
        path, what, "a folder, a device or a pipe", "give the path of a file");
  if (status.st_uid != ::geteuid())
    refuse_secret(
        path,
        what,
        text("a file of user ", status.st_uid, ", while this is user ", ::geteuid()),
        "make a copy that belongs to this user, with mode 0600");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    refuse_secret(
        path,
        what,
        "mode " + octal(status.st_mode),
        "take the rights of all others away (chmod 600), and make a new secret if "
        "somebody may have read this one");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes == 0 || bytes > most)
    refuse_secret(
        path,
        what,
        text("one of ", bytes, " bytes"),
        "is it the file that its name says?");
  return bytes;
}

// A file under a name that nobody looks for, which goes unless it is published.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : path_(path), temporary_(path) {
    temporary_ += text(".tmp-", ::getpid(), "-", ::gettid());
    // What a killed process of this number may have left would be in the way.
    ::unlink(temporary_.c_str());
    fd_ = ::open(
        temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd_ < 0)
      fail(errno);
  }
  ~NewFile() {
    ::close(fd_);
    ::unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view content) {
    while (!content.empty()) {
      const ssize_t put = ::write(fd_, content.data(), content.size());
      if (put < 0 && errno != EINTR)
        fail(errno);
      content.remove_prefix(put < 0 ? 0 : static_cast<std::size_t>(put));
    }
  }

  void publish(mode_t mode) {
    if (::fchmod(fd_, mode) != 0 || ::fsync(fd_) != 0)
      fail(errno);
    // Unlike rename(), link() never replaces a file. A few filesystems know only the
    // other call, and older ones only this one.
    if (::link(temporary_.c_str(), path_.c_str()) == 0)
      return;
    if (errno != EEXIST &&
        ::renameat2(
            AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) ==
            0)
      return;
    fail(errno);
  }

 private:
  [[noreturn]] void fail(int code) const {
    throw InvalidArgument(text(
        "[net] expected to make the new file ",
        in_quotes(path_.string()),
        ", got ",
        errno_text(code),
        code == EEXIST ? "; name another file, or move that one away"
                       : "; check the folder, its permissions and the disk"));
  }

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

}  // namespace

SecretText::~SecretText() {
  ::explicit_bzero(bytes_.data(), bytes_.size());
}

SecretText read_secret(
    const std::filesystem::path& path, const std::string& what, std::size_t most) {
  // O_NONBLOCK: a pipe of that name would hold this call up.
  const FileDescriptor file(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ELOOP)
    refuse_secret(path, what, "a link", "give the path of the file itself");
  if (file.get() < 0)
    refuse_secret(path, what, errno_text(errno), "check the path and its permissions");
  SecretText content(check_secret(file.get(), path, what, most));
  std::size_t done = 0;
  while (done < content.view().size()) {
    const ssize_t got =
        ::read(file.get(), content.data() + done, content.view().size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      refuse_secret(
          path, what, got < 0 ? errno_text(errno) : "its end too early", "try again");
    done += static_cast<std::size_t>(got);
  }
  return content;
}

void write_new_file(
    const std::filesystem::path& path, std::string_view content, mode_t mode) {
  NewFile file(path);
  file.write(content);
  file.publish(mode);
}

}  // namespace trireme::net
