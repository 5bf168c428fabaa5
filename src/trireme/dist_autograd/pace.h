// Trainers that keep in step, or nearly so.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/rpc/future.h"
#include "trireme/rpc/wire_containers.h"
#include "trireme/rpc/wire_numbers.h"
#include "trireme/rpc/wire_struct.h"

namespace trireme::dist_autograd {

/// Trainers that step the same parameters, each by an optimizer of its own. All name
/// the same group, and have parameters on the same workers.
struct TrainerGroup {
  std::string name;
  /// All of them, by the names of their workers.
  std::vector<std::string> trainers;
  /// How far one may be ahead: after its step n a trainer goes on when all others have
  /// done step n - staleness. 0: all go step by step together.
  std::int64_t staleness = 0;
};

/// What a trainer is told that has waited for the others: the one that is gone, if one
/// is.
using PaceAnswer = std::optional<std::string>;

/// Counts the steps of trainers, on one worker for each group. A trainer that has left
/// is waited for no more; one that is gone ends the wait of the others. It does no I/O;
/// thread-safe.
class Paces {
 public:
  /// A trainer begins. InvalidArgument if the others mean another group by that name,
  /// or it is there already. One that comes back begins where the slowest is.
  void join(const TrainerGroup& group, const std::string& trainer);
  /// It has done a step; ready when it may go on.
  rpc::Future<PaceAnswer> done(const std::string& group, const std::string& trainer);
  /// It makes no more steps.
  void leave(const std::string& group, const std::string& trainer);
  /// Its worker is gone.
  void forget(const std::string& trainer);
  /// Those that others wait for, a text each: "trainer1 has done 3 steps of 5".
  std::vector<std::string> late(const std::string& group, const std::string& trainer);
  /// How many groups there are.
  std::size_t size() const;

 private:
  enum class Is { Expected, There, Left, Gone };
  struct Trainer {
    Is is = Is::Expected;
    std::int64_t steps = 0;
  };
  struct Wait {
    std::string trainer;
    std::int64_t others = 0;  // how many steps all others have to do first
    rpc::Promise<PaceAnswer> promise;
  };
  struct Group {
    TrainerGroup facts;
    std::map<std::string, Trainer> trainers;
    std::list<Wait> waits;
  };
  // Waits that are over, with what they are told; to be told without the lock.
  using Over = std::vector<std::pair<Wait, PaceAnswer>>;
  // With the lock.
  Group& of(const std::string& group, const std::string& trainer);
  static bool is_over(const Group& group, const Wait& wait, PaceAnswer& answer);
  static void look(Group& group, Over& over);
  void drop_if_empty(const std::string& name);
  static void tell(Over over);

  mutable std::mutex mutex_;
  std::map<std::string, Group> groups_;
};

}  // namespace trireme::dist_autograd

template <>
struct trireme::rpc::Fields<trireme::dist_autograd::TrainerGroup> {
  using TrainerGroup = dist_autograd::TrainerGroup;
  static constexpr auto name = "trireme.TrainerGroup";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &TrainerGroup::name, &TrainerGroup::trainers, &TrainerGroup::staleness);
};
