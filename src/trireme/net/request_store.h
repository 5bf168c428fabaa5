// A store on anything that answers requests: the memory store and the client share it.
#pragma once
#include <string>
#include <vector>

#include "trireme/net/store.h"
#include "trireme/net/store_request.h"

namespace trireme::net {

/// Puts the calls of a Store into requests, and the answers back.
class RequestStore : public Store {
 public:
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, Deadline deadline) override;
  std::optional<std::string> try_get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  StoreSwap compare_set(
      std::string_view key,
      std::optional<std::string_view> expected,
      std::string_view desired) override;
  void wait(const std::vector<std::string>& keys, Deadline deadline) override;
  bool erase(std::string_view key) override;
  std::vector<std::string> keys(std::string_view prefix) override;

 protected:
  /// Answers a request. Get and Wait are answered by `deadline`, if need be with
  /// Missing.
  virtual StoreReply call(StoreRequest request, Deadline deadline) = 0;
  /// The deadline of a call that was given none.
  virtual Deadline own_deadline() const = 0;

  /// call(), with InvalidArgument for what was refused and InternalError for an answer
  /// to another question.
  StoreReply ask(StoreRequest request, Deadline deadline, StoreAnswer expected);
};

/// Throws what the table has thrown where it answered.
void throw_if_refused(const StoreReply& reply);

/// A change as a watcher sees it, from an answer that came to its watch.
StoreChange store_change(const StoreReply& reply);

}  // namespace trireme::net
