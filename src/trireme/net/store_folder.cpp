#include "trireme/net/store_folder.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/log.h"
#include "trireme/net/file_lock.h"

namespace trireme::net {
namespace {

constexpr const char* kHeadName = "head";
constexpr std::string_view kLogPrefix = "log.";
constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
// A log may be twice as long as what it says, and this.
constexpr std::uint64_t kHistoryBytes = std::uint64_t{4} << 20;

std::string log_name(std::uint64_t generation) {
  return text(kLogPrefix, generation);
}

/// Opens the folder without making it; -1 with errno if it cannot.
int open_folder(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int open_in(int folder, const std::string& name, int flags) {
  return ::openat(folder, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

// What others may write to, others can answer from.
void check_private(int folder, const std::string& path) {
  struct stat status {};
  const bool known = ::fstat(folder, &status) == 0;
  if (known && status.st_uid == ::geteuid() && (status.st_mode & 022) == 0)
    return;
  throw InvalidArgument(text(
      "[net] expected a folder for the store that only its owner may write to, got ",
      in_quotes(path),
      known ? text(" of user ", status.st_uid, " with other rights") : std::string(),
      "; give the store a folder of its own, or take the rights away with chmod go-w"));
}

FileDescriptor make_folder(const std::string& path) {
  std::error_code ignored;
  const auto parent = std::filesystem::path(path).parent_path();
  if (!parent.empty())
    std::filesystem::create_directories(parent, ignored);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw InvalidArgument(text(
        "[net] expected to make the folder ",
        in_quotes(path),
        " for the store, got ",
        errno_text(errno),
        "; choose a path where this user may write"));
  FileDescriptor folder(open_folder(path));
  if (folder.get() < 0)
    throw InvalidArgument(text(
        "[net] expected a folder for the store at ",
        in_quotes(path),
        ", got ",
        errno_text(errno),
        "; choose another path"));
  check_private(folder.get(), path);
  return folder;
}

/// Writes all of it; false with errno if it cannot.
bool write_at(int fd, std::string_view bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put =
        ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return true;
}

/// Up to `most` bytes from there; false with errno if it cannot.
bool read_at(int fd, std::string& into, std::size_t most, std::uint64_t offset) {
  into.resize(most);
  ssize_t got = 0;
  do {
    got = ::pread(fd, into.data(), most, static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  into.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return got >= 0;
}

}  // namespace

StoreFolder::StoreFolder(
    std::filesystem::path path,
    std::size_t most_bytes,
    Changed changed,
    Deadline deadline)
    : path_(path.string()),
      most_bytes_(most_bytes),
      folder_(make_folder(path_)),
      head_(open_in(folder_.get(), kHeadName, O_RDWR | O_CREAT)),
      parser_(path_) {
  if (head_.get() < 0)
    fail("open", errno);
  visit(deadline, [this] { remove_strays(); });
  changed_ = std::move(changed);
}

void StoreFolder::visit(Deadline deadline, const std::function<void()>& work) {
  const FileLock lock(head_.get(), deadline, path_);
  read_head();
  {
    // The head's lock would do, but NFS brings a file up to date when that file itself
    // is locked, and writes it back when it is let go.
    const FileLock fence(log_->get(), deadline, path_);
    read_news();
    tell_difference();
    work();
  }
  compact_if_due();
}

void StoreFolder::read_head() {
  struct stat status {};
  if (::fstat(head_.get(), &status) != 0)
    fail("look at", errno);
  if (status.st_nlink == 0)
    throw Error(text(
        "[net] expected the store at ",
        in_quotes(path_),
        ", got none: somebody has removed it; let the creator of the job remove it, "
        "and "
        "only after all have ended"));
  std::string stamp;
  if (!read_at(head_.get(), stamp, kStoreStampBytes, 0))
    fail("read", errno);
  // Shorter: it is new, or its maker was killed at once.
  if (stamp.size() < kStoreStampBytes)
    return begin_store();
  const std::uint64_t generation = decode_store_stamp(stamp, path_);
  if (generation != generation_)
    open_log(generation);
}

void StoreFolder::begin_store() {
  const FileDescriptor log(
      open_in(folder_.get(), log_name(1), O_RDWR | O_CREAT | O_TRUNC));
  const std::string stamp = encode_store_stamp(1);
  if (log.get() < 0 || !write_at(log.get(), stamp, 0) || ::fsync(log.get()) != 0 ||
      !write_at(head_.get(), stamp, 0))
    fail("begin", errno);
  open_log(1);
}

void StoreFolder::open_log(std::uint64_t generation) {
  log_.emplace(open_in(folder_.get(), log_name(generation), O_RDWR));
  if (log_->get() < 0)
    fail("open the log of", errno);
  std::string stamp;
  if (!read_at(log_->get(), stamp, kStoreStampBytes, 0))
    fail("read the log of", errno);
  const std::string log_path = path_ + "/" + log_name(generation);
  if (decode_store_stamp(stamp, log_path) != generation)
    throw InvalidArgument(text(
        "[net] expected the log ",
        generation,
        " of a store at ",
        in_quotes(log_path),
        ", got another one; remove the store and start the job again"));
  generation_ = generation;
  parser_ = StoreLogParser(log_path);
  former_ = std::exchange(map_, StoreMap(most_bytes_));
  compact_at_ = 0;
}

void StoreFolder::read_news() {
  read_log([&](std::string key, StoreValue value) {
    if (!former_ && changed_)
      changed_(key, value);
    apply(std::move(key), std::move(value));
  });
  if (!parser_.torn())
    return;
  TRIREME_LOG(warn, "net")
      << "the store at " << path_
      << " ends in a torn record, which a killed process has left; "
         "it is cut off";
  if (::ftruncate(log_->get(), static_cast<off_t>(parser_.good_bytes())) != 0)
    fail("repair", errno);
  parser_.drop_torn();
}

void StoreFolder::read_log(const StoreLogParser::Take& take) {
  parser_.drop_torn();  // what a visit that failed may have left
  std::uint64_t offset = parser_.good_bytes();
  for (std::string piece;; offset += piece.size()) {
    if (!read_at(log_->get(), piece, kPieceBytes, offset))
      fail("read the log of", errno);
    if (piece.empty())
      return;
    parser_.feed(piece, take);
  }
}

void StoreFolder::apply(std::string key, StoreValue value) {
  if (value)
    map_.put(key, std::move(value));
  else
    map_.erase(key);
}

void StoreFolder::write(std::string_view key, const StoreValue& value) {
  const std::string record = encode_store_record(key, value);
  if (!write_at(log_->get(), record, parser_.good_bytes())) {
    const int code = errno;
    if (::ftruncate(log_->get(), static_cast<off_t>(parser_.good_bytes())) != 0)
      TRIREME_LOG(warn, "net") << "a piece of a record is left in the store at "
                               << path_ << "; the next visitor removes it";
    fail("write to", code);
  }
  parser_.feed(record, [this](std::string found, StoreValue content) {
    if (changed_)
      changed_(found, content);
    apply(std::move(found), std::move(content));
  });
}

bool StoreFolder::has_news() const {
  struct stat status {};
  return ::fstat(log_->get(), &status) != 0 || status.st_nlink == 0 ||
         static_cast<std::uint64_t>(status.st_size) != parser_.good_bytes();
}

// The log was written anew since the last visit, and what happened between is not in
// it.
void StoreFolder::tell_difference() {
  if (!former_)
    return;
  const StoreMap former = *std::exchange(former_, std::nullopt);
  if (!changed_)
    return;
  for (const auto& [key, value] : former.entries())
    if (map_.find(key) == nullptr)
      changed_(key, nullptr);
  for (const auto& [key, value] : map_.entries())
    if (!former.matches(key, value))
      changed_(key, value);
}

void StoreFolder::compact_if_due() {
  const std::uint64_t live = 2 * std::uint64_t{map_.bytes()} + kHistoryBytes;
  if (parser_.good_bytes() <= std::max(live, compact_at_))
    return;
  try {
    compact();
  } catch (const Error& error) {
    TRIREME_LOG(warn, "net") << error.what();
    compact_at_ = 2 * parser_.good_bytes();
  }
}

void StoreFolder::compact() {
  const std::uint64_t next = generation_ + 1;
  const FileDescriptor log(
      open_in(folder_.get(), log_name(next), O_RDWR | O_CREAT | O_TRUNC));
  std::string piece = encode_store_stamp(next);
  std::uint64_t offset = 0;
  bool good = log.get() >= 0;
  const auto flush = [&] {
    good = good && write_at(log.get(), piece, offset);
    offset += piece.size();
    piece.clear();
  };
  for (const auto& [key, value] : map_.entries()) {
    piece += encode_store_record(key, value);
    if (piece.size() >= kPieceBytes)
      flush();
  }
  flush();
  // The new log must be there before the head says so, and the old one until then.
  if (!good || ::fsync(log.get()) != 0 ||
      !write_at(head_.get(), encode_store_stamp(next), 0)) {
    const int code = errno;
    ::unlinkat(folder_.get(), log_name(next).c_str(), 0);
    fail("compact", code);
  }
  ::unlinkat(folder_.get(), log_name(generation_).c_str(), 0);
  open_log(next);
  read_news();
  former_.reset();  // no news for anybody: the entries are the same
}

void StoreFolder::remove_strays() const {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kLogPrefix) && name != log_name(generation_))
      ::unlinkat(folder_.get(), name.c_str(), 0);
  }
}

void StoreFolder::fail(const char* what, int code) const {
  throw Error(text(
      "[net] expected to ",
      what,
      " the store at ",
      in_quotes(path_),
      ", got ",
      errno_text(code),
      "; check the folder and the disk"));
}

bool remove_store_folder(const std::filesystem::path& path, Deadline deadline) {
  const FileDescriptor folder(open_folder(path.string()));
  if (folder.get() < 0 && errno == ENOENT)
    return false;
  const FileDescriptor head(
      folder.get() < 0 ? -1 : open_in(folder.get(), kHeadName, O_RDWR));
  if (head.get() < 0)
    throw InvalidArgument(text(
        "[net] expected the folder of a store at ",
        in_quotes(path.string()),
        ", got ",
        errno_text(errno),
        "; give the path that the store was opened with"));
  const FileLock lock(head.get(), deadline, path.string());
  std::string stamp;
  if (!read_at(head.get(), stamp, kMagicBytes, 0) ||
      !encode_store_stamp(0).starts_with(stamp))
    throw InvalidArgument(text(
        "[net] expected the folder of a store at ",
        in_quotes(path.string()),
        ", got one with another kind of file in it; remove it yourself if you are "
        "sure"));
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kLogPrefix))
      ::unlinkat(folder.get(), name.c_str(), 0);
  }
  ::unlinkat(folder.get(), kHeadName, 0);
  ::rmdir(path.c_str());
  return true;
}

}  // namespace trireme::net
