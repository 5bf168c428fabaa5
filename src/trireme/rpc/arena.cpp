#include "trireme/rpc/arena.h"

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/file_memory.h"

namespace trireme::rpc {
namespace {

constexpr int kArenaSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void refuse_arena(const char* expected, const std::string& got) {
  throw Error(text(
      "[rpc] expected ",
      expected,
      ", got ",
      got,
      "; large tensors go through the socket instead"));
}

// What cannot be the file that was offered is not even opened: that may have effects of
// its own.
void check_file(const struct stat& status, const ArenaOffer& offer) {
  if (!S_ISREG(status.st_mode) || status.st_dev != offer.device ||
      status.st_ino != offer.inode)
    refuse_arena("the shared memory that was offered", "another file");
  if (status.st_uid != ::geteuid())
    refuse_arena("shared memory of this user", text("that of user ", status.st_uid));
  if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) != offer.bytes)
    refuse_arena(
        "shared memory of the size that was offered", text(status.st_size, " bytes"));
}

}  // namespace

void write_offer(net::ByteWriter& out, const ArenaOffer& offer) {
  out.u32(static_cast<std::uint32_t>(offer.descriptor))
      .u64(offer.device)
      .u64(offer.inode)
      .u64(offer.bytes);
}

ArenaOffer read_offer(net::ByteReader& in) {
  ArenaOffer offer;
  offer.descriptor = static_cast<std::int32_t>(in.u32());
  offer.device = in.u64();
  offer.inode = in.u64();
  offer.bytes = in.u64();
  return offer;
}

Arena::Arena(FileDescriptor file, std::uint64_t bytes)
    : file_(std::move(file)), bytes_(static_cast<std::size_t>(bytes)) {
  void* memory = ::mmap(
      nullptr,
      bytes_,
      PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_NORESERVE,
      file_.get(),
      0);
  if (memory == MAP_FAILED)
    refuse_arena("to map shared memory", errno_text(errno));
  data_ = static_cast<std::byte*>(memory);
}

Arena::~Arena() {
  ::munmap(data_, bytes_);
}

std::shared_ptr<Arena> Arena::make(std::uint64_t bytes) {
  FileDescriptor file(::memfd_create("trireme-rpc", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, kArenaSeals) != 0)
    refuse_arena("to make shared memory", errno_text(errno));
  return std::shared_ptr<Arena>(new Arena(std::move(file), bytes));
}

std::shared_ptr<Arena> Arena::open(const ArenaOffer& offer, const ProcessPlace& maker) {
  const std::string path = text("/proc/", maker.pid, "/fd/", offer.descriptor);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    refuse_arena("to find the shared memory that was offered", errno_text(errno));
  check_file(status, offer);
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
    refuse_arena("to open the shared memory that was offered", errno_text(errno));
  check_file(status, offer);
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    refuse_arena("shared memory that cannot shrink", "a file that can");
  std::shared_ptr<Arena> arena(new Arena(std::move(file), offer.bytes));
  const FileDescriptor closed(arena->file_.release());
  return arena;
}

ArenaOffer Arena::offer() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0)
    refuse_arena("to look at shared memory", errno_text(errno));
  return {
      .descriptor = file_.get(),
      .device = status.st_dev,
      .inode = status.st_ino,
      .bytes = bytes_};
}

bool Arena::reserve(std::uint64_t offset, std::uint64_t bytes) const {
  return take_file_memory(file_.get(), offset, bytes) == bytes;
}

void Arena::release(std::uint64_t offset, std::uint64_t bytes) const {
  release_file_memory(file_.get(), offset, bytes);
}

}  // namespace trireme::rpc
