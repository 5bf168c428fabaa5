// The store of one process: for ranks that are threads, and for tests.
#pragma once
#include <chrono>
#include <memory>

#include "trireme/net/request_store.h"

namespace trireme::net {

struct MemoryStoreOptions {
  StoreLimits limits;
};

/// A store in this process's memory. It ends with the object; a call that waits at that
/// time would be a call on a dead object, so let them end first.
///
///     auto store = std::make_shared<MemoryStore>();
///     comm::run_local(4, [&](int rank) { store->set(text("rank/", rank), "here"); });
class MemoryStore : public RequestStore {
 public:
  explicit MemoryStore(MemoryStoreOptions options = {});
  ~MemoryStore() override;

  StoreWatch watch(std::string_view prefix, Callback callback) override;

 protected:
  StoreReply call(StoreRequest request, Deadline deadline) override;
  Deadline own_deadline() const override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trireme::net
