// A hold on a value that lives on one worker, without its type.
#pragma once
#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "trireme/rpc/worker.h"

namespace trireme::rpc {

/// Names a value in all of a world: who made the name, and its number there.
struct ObjectId {
  WorkerId creator = 0;
  std::uint64_t number = 0;
  auto operator<=>(const ObjectId&) const = default;
};

/// As "3.17": the seventeenth name that worker 3 has made.
std::string to_string(const ObjectId& id);

/// Why a value cannot be reached any more; empty as long as it can.
class Loss {
 public:
  /// The first reason stays.
  void set(std::string why);
  bool happened() const { return happened_.load(std::memory_order_acquire); }
  /// The reason; only after it has happened.
  const std::string& why() const { return why_; }

 private:
  std::atomic<bool> happened_{false};
  std::string why_;
};

/// Where handles say that they are gone, from whatever thread and under whatever lock.
class Releases {
 public:
  /// `wake` is called when there is something to take where there was nothing.
  explicit Releases(std::function<void()> wake = nullptr) : wake_(std::move(wake)) {}
  struct Entry {
    ObjectId id;
    std::uint64_t fork = 0;
  };
  void add(Entry entry);
  std::vector<Entry> take();
  /// How many wait to be taken.
  std::size_t waiting() const;
  /// Nobody takes them any more.
  void close();

  /// Whose handles these are: what their values are reached through, for as long as it
  /// is there.
  std::weak_ptr<void> home;

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::function<void()> wake_;
  bool closed_ = false;
};

/// One worker's hold on a value. Handles of one worker share it; the owner hears when
/// the last one is gone.
class Hold {
 public:
  struct Facts {
    ObjectId id;
    WorkerId owner = 0;
    /// Which of the forks of a value this is; 0 on its owner.
    std::uint64_t fork = 0;
    /// The value, on its owner.
    std::shared_ptr<void> cargo;
    std::shared_ptr<Loss> loss;
  };
  Hold(Facts facts, std::shared_ptr<Releases> releases)
      : facts_(std::move(facts)), releases_(std::move(releases)) {}
  ~Hold() { releases_->add({facts_.id, facts_.fork}); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  const ObjectId& id() const { return facts_.id; }
  WorkerId owner() const { return facts_.owner; }
  std::uint64_t fork() const { return facts_.fork; }
  const std::shared_ptr<void>& cargo() const { return facts_.cargo; }
  const Loss& loss() const { return *facts_.loss; }
  /// Whose hold it is: two agents of one process never mix theirs.
  const std::shared_ptr<Releases>& releases() const { return releases_; }

 private:
  Facts facts_;
  std::shared_ptr<Releases> releases_;
};

/// A handle of a hold; empty if there is none. RRef<T> is the same with a type.
class Reference {
 public:
  Reference() = default;
  explicit Reference(std::shared_ptr<Hold> hold) : hold_(std::move(hold)) {}
  const std::shared_ptr<Hold>& hold() const { return hold_; }
  const Hold* operator->() const { return hold_.get(); }
  explicit operator bool() const { return hold_ != nullptr; }

 private:
  std::shared_ptr<Hold> hold_;
};

}  // namespace trireme::rpc
