// What a rank says when a step fails.
#pragma once
#include <exception>
#include <optional>
#include <string>

#include "trireme/pipe/program.h"

namespace trireme::pipe {

/// Where a rank was when it failed.
struct FailedAt {
  /// As the world counts.
  int world_rank = 0;
  /// As the schedule counts, and the place in its list.
  int rank = 0;
  int position = 0;
  /// The receive that it waited for, if it did.
  std::optional<sched::Action> awaited{};
  /// The stage that it comes from.
  int awaited_from = 0;
};

/// "rank 1 failed at 1F3 (stage 1, microbatch 3): …", with the schedule around it.
std::string describe_failure(
    const Program& program, const FailedAt& at, const std::string& what);

/// Throws what `error` is to a rank of this pipeline: our own kinds stay what they are,
/// and everything else is a PeerError that names this rank. The text says where it was.
[[noreturn]] void throw_failure(
    const Program& program, const FailedAt& at, const std::exception_ptr& error);

}  // namespace trireme::pipe
