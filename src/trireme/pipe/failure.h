// What a rank says when a step fails.
#pragma once
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "trireme/pipe/program.h"

namespace trireme::pipe {

/// Where a rank was when it failed.
struct FailedAt {
  /// As the pipeline counts, and the place in the schedule's list.
  int rank = 0;
  int position = 0;
  /// The receive that it waited for, if it did.
  std::optional<sched::Action> awaited{};
  /// The stage that it comes from.
  int awaited_from = 0;
  /// The ranks in the world of those of the pipeline; empty: the same.
  std::vector<int> members{};

  int world_rank() const {
    return members.empty() ? rank : members[static_cast<size_t>(rank)];
  }
};

/// "rank 1 failed at 1F3 (stage 1, microbatch 3): …", with the schedule around it.
/// Ranks are those of the pipeline, with the world's beside them where it counts
/// otherwise.
std::string describe_failure(
    const Program& program, const FailedAt& at, const std::string& what);

/// What an exception says: of torch's without the stack trace, which says nothing about
/// the model.
std::string error_text(const std::exception_ptr& error);

/// Throws `error` on the rank that failed: what it is first, then where that was. Its
/// type stays: our own kinds and torch's carry both in their text; of any other kind
/// the exception itself is thrown, and the log says where. A TimeoutError is about the
/// place, which comes first there; a PeerError has been told by another rank, and stays
/// as it is.
[[noreturn]] void throw_failure(
    const Program& program, const FailedAt& at, const std::exception_ptr& error);

}  // namespace trireme::pipe
