#include "trireme/memory/torch_allocator.h"

#include <c10/util/Exception.h>

#include "trireme/core/error.h"
#include "trireme/memory/account_state.h"
#include "trireme/memory/process_pool.h"

namespace trireme::memory {
namespace {

c10::Device cpu() {
  return c10::Device(c10::DeviceType::CPU);
}

std::size_t live_bytes() {
  return static_cast<std::size_t>(AccountState::process().live());
}

std::size_t system_bytes() {
  return static_cast<std::size_t>(process_pool().stats().system_bytes);
}

void tell_profiler(Block& block, std::int64_t change) {
  c10::reportMemoryUsageToProfiler(
      block.data(), change, live_bytes(), system_bytes(), cpu());
}

[[noreturn]] void throw_out_of_memory(std::size_t bytes) {
  c10::reportOutOfMemoryToProfiler(
      static_cast<std::int64_t>(bytes), live_bytes(), system_bytes(), cpu());
  // Of libtorch's kind, not ours: it passes through libtorch, whose users expect it.
  C10_THROW_ERROR(
      OutOfMemoryError,
      text(
          "[memory] expected ",
          bytes,
          " bytes for a CPU tensor, but the system gave none, with ",
          live_bytes(),
          " bytes in other tensors and nothing cached; use smaller microbatches, more "
          "ranks or recomputation, or look for a wrong size"));
}

void free_data(void* data) {
  if (data == nullptr) {
    return;
  }
  Block& block = *Block::of(data);
  const auto bytes = static_cast<std::int64_t>(block.bytes);
  block.account->discharge(bytes);
  // Asking libtorch takes longer than the rest of this function, so it is asked only
  // for blocks whose birth it was told of. Its own allocator reports the same deaths.
  if (block.profiled && c10::memoryProfilingEnabled()) [[unlikely]] {
    tell_profiler(block, -bytes);
  }
  process_pool().give_back(cache_for_giving_back(), block);
}

class TorchAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes == 0 ? nullptr : allocate_data(bytes);
    return {data, data, &free_data, cpu()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_data; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void* allocate_data(std::size_t bytes) {
    Block* block = process_pool().take(cache_for_taking(), bytes);
    if (block == nullptr) [[unlikely]] {
      throw_out_of_memory(bytes);
    }
    AccountState& account = AccountState::current();
    account.charge(static_cast<std::int64_t>(bytes));
    block->account = &account;
    block->bytes = bytes;
    block->profiled = c10::memoryProfilingEnabled();
    if (block->profiled) [[unlikely]] {
      tell_profiler(*block, static_cast<std::int64_t>(bytes));
    }
    return block->data();
  }
};

}  // namespace

c10::Allocator& torch_allocator() {
  static auto* instance = new TorchAllocator;
  return *instance;
}

}  // namespace trireme::memory
