#include "trireme/core/shared_value.h"

#include <cerrno>
#include <sys/mman.h>

#include "trireme/core/error.h"

namespace trireme::detail {

void* map_shared(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(text(
        "[core] expected ",
        bytes,
        " bytes of shared memory, got ",
        errno_text(errno),
        "; free memory, or raise ulimit -v"));
  return memory;
}

void unmap_shared(void* memory, std::size_t bytes) noexcept {
  ::munmap(memory, bytes);
}

}  // namespace trireme::detail
