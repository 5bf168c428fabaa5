// Which nodes take part in a job, when they start, and what becomes of it. Decides
// only: leader.cpp carries it out, tests drive it with a clock of their own.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/launch/word.h"

namespace trireme::launch {

/// A word for one node.
struct Letter {
  int to = 0;
  Word word;
};

/// The course of a job over several nodes, as its leader sees it. Nodes gather; when
/// enough are there they get their places and start. When all ranks of a round have
/// ended, there is another round after a failure, as long as restarts are left, or the
/// job is over. What one node has to tell goes to all others.
///
///     rounds.join(7, card, now);
///     for (const Letter& letter : rounds.next(now)) send(letter);
class Rounds {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Plan {
    int least = 1;
    int most = 1;
    int max_restarts = 0;
    /// How long the nodes have to come, for each round.
    std::chrono::milliseconds join = std::chrono::minutes(5);
    /// How long those that are enough wait for more.
    std::chrono::milliseconds last_call = std::chrono::seconds(5);
    std::string run_id;
  };
  Rounds(Plan plan, Time now);

  /// A node is there. The one that leads is number 0 in every round. One in whose
  /// way others are, by their number or because all places are taken, gets its place if
  /// one of them turns out to be gone.
  void join(int id, const NodeCard& card, bool leads);
  /// A node in the round says Idle, Failed, Obeyed, Stopping, Passed or Here.
  void hear(int id, const Word& word);
  /// A node is gone: nothing comes from it any more.
  void gone(int id, const std::string& why);
  /// Not all nodes can come, or come back: where they are waited for, the job is over
  /// with that.
  void cannot_gather(const std::string& why);
  /// Nobody can start, though all are there: the job is over with that.
  void cannot_start(const std::string& why) { finish(1, why); }

  /// What is to be told now, in order; call it after each of the above, and at wake().
  std::vector<Letter> next(Time now);
  /// When next() should be called though nothing has happened.
  std::optional<Time> wake() const { return wake_; }
  bool over() const { return phase_ == Phase::Over; }

 private:
  enum class Phase { Gathering, Running, Stopping, Over };
  struct Member {
    NodeCard card;
    bool leads = false;
    int order = 0;
    bool in_round = false;
    bool idle = true;
    int node = -1;  // in the last round that it was in
  };
  // A node in whose way others are, until all of them have answered that they live.
  struct Contender {
    NodeCard card;
    std::set<int> asked;
    std::string refusal;
  };
  std::string obstacle(const NodeCard& card) const;
  void refuse(int id, const std::string& why);
  Contender contend(const NodeCard& card) const;
  void answered(int member);
  void let_in(int member);
  std::string missing() const;
  std::vector<int> in_order() const;
  bool enough(Time now);
  void start();
  bool restarts() const;
  void conclude(Time now);
  void finish(int code, const std::string& why);
  void stop(int id, const Word& word);
  void tell(int to, Word word) { letters_.push_back({to, std::move(word)}); }
  void tell_round(int but, const Word& word);

  Plan plan_;
  Phase phase_ = Phase::Gathering;
  int attempt_ = 0;
  int joined_ = 0;        // how many have ever come
  size_t last_size_ = 0;  // of the round before
  std::map<int, Member> members_;
  std::map<int, Contender> contenders_;
  /// Why not all can come; empty as far as is known.
  std::string lacking_;
  /// What the round ends with: the code of its first trouble, or kResumable.
  std::optional<int> trouble_;
  bool obeyed_ = false;
  /// What all are told at the end.
  std::optional<Word> over_;
  Time until_;
  std::optional<Time> call_;
  std::optional<Time> wake_;
  std::vector<Letter> letters_;
};

/// "node 1 (worker7)".
std::string node_text(int node, const std::string& host);

}  // namespace trireme::launch
