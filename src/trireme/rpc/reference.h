// A hold on a value that lives on one worker, without its type.
#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "trireme/rpc/worker.h"

namespace trireme::rpc {

/// Names a value in all of a world: who made the name, and its number there.
struct ObjectId {
  WorkerId creator = 0;
  std::uint64_t number = 0;
  auto operator<=>(const ObjectId&) const = default;
};

/// One worker's hold on a value. Handles of one worker for one value share it; the owner
/// hears when the last one is gone.
class Hold;

/// A handle of a hold; empty if there is none. RRef<T> is the same with a type.
class Reference {
 public:
  Reference() = default;
  explicit Reference(std::shared_ptr<Hold> hold) : hold_(std::move(hold)) {}
  const std::shared_ptr<Hold>& hold() const { return hold_; }
  explicit operator bool() const { return hold_ != nullptr; }

 private:
  std::shared_ptr<Hold> hold_;
};

}  // namespace trireme::rpc
