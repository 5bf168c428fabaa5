// The interface of libtorch: pointers, deleters, errors, the profiler.
#include "trireme/memory/torch_allocator.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include "trireme/memory/caching_allocator.h"

namespace trireme::memory {
namespace {

class TorchAllocatorUnit : public ::testing::Test {
 protected:
  TorchAllocatorUnit() { install_caching_allocator(); }
};

TEST_F(TorchAllocatorUnit, NothingIsLegal) {
  const c10::DataPtr none = torch_allocator().allocate(0);
  EXPECT_EQ(none.get(), nullptr);
  EXPECT_EQ(none.get_deleter(), torch_allocator().raw_deleter());
  EXPECT_EQ(at::empty({0, 3}).sum().item<double>(), 0.0);
}

TEST_F(TorchAllocatorUnit, HasTheRawInterface) {
  void* memory = torch_allocator().raw_allocate(100);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
  std::memset(memory, 5, 100);
  const c10::DataPtr copy = torch_allocator().clone(memory, 100);
  EXPECT_EQ(std::memcmp(copy.get(), memory, 100), 0);
  EXPECT_TRUE(torch_allocator().is_simple_data_ptr(copy));
  torch_allocator().raw_deallocate(memory);
}

TEST_F(TorchAllocatorUnit, TooMuchIsAnErrorOfLibtorchsKind) {
  const std::int64_t live = stats().live_bytes;
  try {
    at::empty({std::int64_t{1} << 55}, at::kDouble);
    FAIL() << "nothing was thrown";
  } catch (const c10::OutOfMemoryError& error) {
    const std::string what = error.what_without_backtrace();
    EXPECT_EQ(
        what.find("[memory] expected 288230376151711744 bytes for a CPU tensor"), 0u)
        << what;
  }
  EXPECT_EQ(stats().live_bytes, live);
}

struct Recorder : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(
      void*,
      std::int64_t change,
      std::size_t total,
      std::size_t,
      c10::Device) override {
    changes.push_back(change);
    last_total = total;
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::vector<std::int64_t> changes;
  std::size_t last_total = 0;
};

TEST_F(TorchAllocatorUnit, TellsTheProfiler) {
  const auto recorder = std::make_shared<Recorder>();
  at::Tensor early = at::empty({10});
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, recorder);
    at::empty({100});
    early.reset();
  }
  at::empty({100});
  EXPECT_EQ(recorder->changes, (std::vector<std::int64_t>{400, -400}));
  EXPECT_EQ(recorder->last_total, static_cast<std::size_t>(stats().live_bytes) + 40);
}

}  // namespace
}  // namespace trireme::memory
