#include "trireme/net/memory_store.h"

#include "store_conformance.h"

namespace trireme::net {
namespace {

struct MemoryFlavour {
  static constexpr const char* kPrefix = "";

  explicit MemoryFlavour(StoreLimits limits = {})
      : store(std::make_shared<MemoryStore>(MemoryStoreOptions{.limits = limits})) {}
  std::shared_ptr<Store> open() const { return store; }

  std::shared_ptr<Store> store;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StoreConformance, MemoryFlavour);

TEST(MemoryStore, ForgetsWatchesThatHaveEnded) {
  MemoryStore store({.limits = {.waiting_bytes = 10 * (kStoreEntryBytes + 6)}});
  const auto watch = [&] { return store.watch("prefix", [](const StoreChange&) {}); };
  for (int i = 0; i < 100; ++i)
    watch().stop();
  std::vector<StoreWatch> open;
  for (int i = 0; i < 10; ++i)
    open.push_back(watch());
  EXPECT_THROW(static_cast<void>(watch()), InvalidArgument);
  open.pop_back();
  open.push_back(watch());
}

TEST(MemoryStore, ForgetsWaitsThatHaveEnded) {
  MemoryStore store({.limits = {.waiting_bytes = 1000}});
  for (int i = 0; i < 30; ++i)
    EXPECT_THROW(
        store.get("absent", Deadline::after(std::chrono::milliseconds(1))),
        TimeoutError);
}

}  // namespace
}  // namespace trireme::net
