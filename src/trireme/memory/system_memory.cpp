#include "trireme/memory/system_memory.h"

#include <cstdlib>
#include <malloc.h>
#include <sys/mman.h>

#include "trireme/memory/block.h"

namespace trireme::memory {
namespace {

// The C library would map a block of this size too, but raises its threshold when one
// is freed, and keeps the next.
constexpr std::size_t kMapFrom = std::size_t{1} << 20;
// Smaller mappings cannot hold a huge page wherever they begin.
constexpr std::size_t kHugeFrom = std::size_t{4} << 20;

void* allocate(std::size_t bytes) noexcept {
  if (bytes < kMapFrom) {
    return std::aligned_alloc(kAlignment, bytes);
  }
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  if (bytes >= kHugeFrom) {
    madvise(memory, bytes, MADV_HUGEPAGE);  // advice: small pages will do as well
  }
  return memory;
}

void release(void* memory, std::size_t bytes) noexcept {
  if (bytes < kMapFrom) {
    std::free(memory);
  } else {
    munmap(memory, bytes);
  }
}

void trim() noexcept {
  malloc_trim(0);
}

}  // namespace

SystemMemory system_memory() noexcept {
  return {.allocate = allocate, .release = release, .trim = trim};
}

}  // namespace trireme::memory
