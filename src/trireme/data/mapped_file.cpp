#include "trireme/data/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::data {
namespace {

/// Closes a file when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0)
      ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void refuse_file_of_data(
    const std::filesystem::path& path, const std::string& what) {
  throw InvalidArgument(text(
      "[data] expected to read ",
      in_quotes(path.string()),
      ", got: ",
      what,
      "; say the path of a file of data"));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Not blocking: a FIFO without a writer would wait for one, and is refused below.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0)
    refuse_file_of_data(path, errno_text(errno));
  struct stat facts {};
  if (::fstat(file.number(), &facts) != 0)
    refuse_file_of_data(path, errno_text(errno));
  if (!S_ISREG(facts.st_mode))
    refuse_file_of_data(
        path, S_ISDIR(facts.st_mode) ? "a directory" : "no regular file");
  const auto size = static_cast<size_t>(facts.st_size);
  if (size == 0)
    return;  // no memory can be mapped to it
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED)
    refuse_file_of_data(path, errno_text(errno));
  owner_ = std::shared_ptr<const void>(
      memory, [size](const void* begin) { ::munmap(const_cast<void*>(begin), size); });
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

std::string_view MappedFile::text() const {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

}  // namespace trireme::data
