// Graphs that come again: what each worker had to wait for.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "trireme/dist_autograd/ids.h"

namespace trireme::dist_autograd {

/// One worker's part in a graph: the sends that wait for gradients, and what is reached
/// from them. Sorted. Calls are counted anew in each context, so that a program that
/// does the same again names them alike.
struct Route {
  std::vector<SendId> sends;
  std::vector<SendId> ends;
  /// Where it begins: which functions this worker has called (ContextState::calls()).
  std::uint64_t calls = 0;
  auto operator<=>(const Route&) const = default;
};

/// A graph, among those that a worker has learnt.
struct RouteId {
  rpc::WorkerId root = -1;
  /// Grows with each; 0 for none.
  std::uint64_t number = 0;
  auto operator<=>(const RouteId&) const = default;
};

/// The routes that one worker has learnt, its own and those of others.
class Routes {
 public:
  /// How many graphs of its own a worker remembers; of others it remembers more, so
  /// that it knows whatever they may ask for.
  static constexpr std::uint64_t kMostOwn = 16;

  /// This worker's part of a graph, as it was.
  void learn(const RouteId& id, Route route);
  /// None if it was not learnt, or is too old.
  std::optional<Route> find(const RouteId& id) const;

  /// A number for a graph that this worker is about to learn.
  std::uint64_t next();
  /// The number of the graph that begins here so; 0 if it was not learnt.
  std::uint64_t number_of(const Route& beginning) const;
  /// All workers know it now; `beginning` is what this one sees before it asks others.
  void keep(Route beginning, std::uint64_t number);
  /// It is not as it was.
  void drop(std::uint64_t number);

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::map<Route, std::uint64_t> own_;
  std::map<RouteId, Route> learnt_;
};

}  // namespace trireme::dist_autograd
