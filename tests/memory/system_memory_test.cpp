// Small and large memory from the real system.
#include "trireme/memory/system_memory.h"

#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

#include "trireme/memory/block.h"

namespace trireme::memory {
namespace {

TEST(SystemMemory, GivesAlignedWritableMemoryOfAllSizes) {
  const SystemMemory system = system_memory();
  for (std::size_t bytes = 64; bytes <= std::size_t{16} << 20; bytes *= 4) {
    for (std::size_t size : {bytes - 64, bytes, bytes + 64}) {
      if (size == 0) {
        continue;
      }
      void* memory = system.allocate(size);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % kAlignment, 0u);
      std::memset(memory, 1, size);
      system.release(memory, size);
    }
  }
  system.trim();
}

TEST(SystemMemory, TooMuchIsNull) {
  EXPECT_EQ(system_memory().allocate(std::size_t{1} << 60), nullptr);
}

}  // namespace
}  // namespace trireme::memory
