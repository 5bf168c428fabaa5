// Ranks as threads whose group gives up the order of its sums.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "trireme/comm/init.h"

namespace trireme::comm {

/// run_threads() with groups of SumOrder::Any.
inline void run_in_any_order(
    int ranks, const JoinWorld& join, const std::function<void(const Group&)>& body) {
  constexpr auto kTimeout = std::chrono::seconds(30);
  static thread_local std::shared_ptr<Engine> mine;  // each rank is a thread
  run_threads(
      ranks,
      [&](int rank, const Deadline& deadline) { return mine = join(rank, deadline); },
      [&](const Group&) {
        body(Group(std::move(mine), {.timeout = kTimeout, .order = SumOrder::Any}));
      },
      {.timeout = kTimeout});
}

}  // namespace trireme::comm
