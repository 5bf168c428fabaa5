// Which ranks of a job have ended, as their launcher knows it. A rank that dies before
// it has met the others leaves no other trace.
#pragma once
#include <memory>
#include <string>

#include "trireme/core/environment.h"

namespace trireme {

/// A page of memory that the launcher writes and ranks read. It has no name in any file
/// system, so nothing is left of it when the launcher has gone.
///
///     RankRoll roll = RankRoll::create(segment_name(env), 4);   // the launcher
///     roll.set_ended(2);
///     RankRoll::find(Environment::of_process(), segment_name(env)).has_ended(2);
class RankRoll {
 public:
  /// The variable in which ranks find the launcher's roll.
  static constexpr const char* kVariable = "TRIREME_RANK_ROLL";
  static constexpr int kNobody = -1;

  /// Knows of nobody.
  RankRoll() = default;
  /// A roll for the ranks of one job and attempt; one that knows of nobody if the
  /// system has no memory for it.
  static RankRoll create(const std::string& job, int ranks);
  /// The roll that the variables name; one that knows of nobody where there is none, it
  /// cannot be read, or it is another job's.
  static RankRoll find(const Environment& env, const std::string& job);

  /// What the variable has to say, while this process and this object live; empty if it
  /// knows of nobody.
  std::string path() const;
  void set_ended(int rank);
  bool has_ended(int rank) const;
  /// The rank that was the first to end, or kNobody: those that follow may have ended
  /// because of it.
  int first_ended() const;

 private:
  struct Page;
  std::shared_ptr<Page> page_;
  /// In the launcher: what path() leads to.
  std::shared_ptr<int> fd_;
};

}  // namespace trireme
