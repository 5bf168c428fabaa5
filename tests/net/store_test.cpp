#include "trireme/net/store.h"

#include "store_conformance.h"
#include "trireme/net/memory_store.h"

namespace trireme::net {
namespace {

// A prefix store is a store like any other.
struct PrefixFlavour {
  static constexpr const char* kPrefix = "job/3/";

  explicit PrefixFlavour(StoreLimits limits = {})
      : store(std::make_shared<MemoryStore>(MemoryStoreOptions{.limits = limits})) {
    store->set("job/4/other", "not to be seen");
    store->set("job/3", "nor this");
  }
  std::shared_ptr<Store> open() const {
    return std::make_shared<PrefixStore>("job/3/", store);
  }

  std::shared_ptr<Store> store;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Prefix, StoreConformance, PrefixFlavour);

TEST(PrefixStore, IsAPartOfTheOther) {
  const auto whole = std::make_shared<MemoryStore>();
  PrefixStore part("job/3/", whole);
  part.set("rank/0", "a");
  EXPECT_EQ(whole->keys(""), (std::vector<std::string>{"job/3/rank/0"}));
  whole->set("job/3/rank/1", "b");
  EXPECT_EQ(part.keys("rank/"), (std::vector<std::string>{"rank/0", "rank/1"}));
}

TEST(PrefixStore, NeedsAStore) {
  EXPECT_EQ(
      refusal_of([] { PrefixStore("a", nullptr); }),
      "[net] expected a store under the prefix, got none; open one first");
  EXPECT_THROW(
      PrefixStore(std::string(2000, 'x'), std::make_shared<MemoryStore>()),
      InvalidArgument);
}

TEST(StoreWatch, MovesAndStopsOnce) {
  int stopped = 0;
  {
    StoreWatch first([&] { ++stopped; });
    StoreWatch second = std::move(first);
    first = StoreWatch([&] { stopped += 10; });
    EXPECT_EQ(stopped, 0);
    first = std::move(second);
    EXPECT_EQ(stopped, 10);
  }
  EXPECT_EQ(stopped, 11);
}

TEST(Store, RefusesToWaitForTooManyKeys) {
  const std::vector<std::string> keys(1100, std::string(1000, 'k'));
  EXPECT_EQ(
      refusal_of([&] { check_store_keys(keys); }),
      "[net] expected at most 1048576 bytes of keys to wait for, got 1104400; wait for "
      "some of the 1100 keys first, and then for the others");
}

}  // namespace
}  // namespace trireme::net
