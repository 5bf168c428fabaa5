// Who holds which value: one worker's book of it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trireme/rpc/reference.h"

namespace trireme::rpc {

/// How a reference arrives at a worker.
enum class Passage : std::uint8_t {
  Granted,  ///< from the owner, which has noted a fork for the receiver already
  Home,     ///< at the owner
  Lent,     ///< at a third worker: the sender keeps its own hold until that has one
  Lost,     ///< it was no good any more when it was sent
};

/// A reference inside a message.
struct TravelMark {
  ObjectId id;
  WorkerId owner = 0;
  Passage passage = Passage::Lost;
  /// The fork that was granted, or the number of the sender's pin.
  std::uint64_t number = 0;
};

/// What workers tell each other about references.
enum class Note : std::uint8_t {
  Add = 16,  ///< to the owner: note a fork of mine
  Added,     ///< to the holder: it is noted
  Refused,   ///< to the holder: there is no such value any more
  Accept,    ///< to the sender of a reference: unpin yours
  Remove,    ///< to the owner: that fork of mine is gone
  Created,   ///< to the creator of a name: its value has a place
};

/// A note that is to be sent. `number` is a fork, or a pin for Accept.
struct Posting {
  WorkerId to = 0;
  Note note = Note::Add;
  ObjectId id;
  std::uint64_t number = 0;
};

/// What a change of the book leads to. The caller sends the notes, drops the values
/// when it holds no lock, and sends what had waited for the names in `settled`.
struct Consequences {
  std::vector<Posting> postings;
  std::vector<std::shared_ptr<void>> dropped;
  std::vector<ObjectId> settled;
};

/// A value of one worker that another holds.
struct Tie {
  ObjectId id;
  WorkerId owner = 0;
  WorkerId holder = 0;
  bool operator==(const Tie&) const = default;
};

/// The book. An owner lists the forks of its values by worker. Who sends a reference on
/// pins its own hold until the receiver says that the owner has listed it, so a value
/// is listed at least once as long as anyone can reach it. Each message must arrive
/// once, in whatever order; what becomes of a worker that is gone, forget() decides.
///
/// It is driven by calls alone, and is not safe for threads.
class References {
 public:
  /// `first` begins above all numbers that this worker has ever used.
  References(WorkerId me, std::uint64_t first, std::shared_ptr<Releases> releases);

  /// A value of this worker.
  Reference own(std::shared_ptr<void> cargo);
  /// A name for a value that `owner` shall make; created() must follow.
  Reference name(WorkerId owner);
  /// The name will never be asked for: the request that was to carry it is off.
  void abandon(ObjectId id, const std::string& why, Consequences& then);
  /// At the owner: `creator` wants a value under that name; it may be made later.
  /// InvalidArgument for a name that is not its to give.
  Reference make(
      WorkerId creator, ObjectId id, std::shared_ptr<void> cargo, Consequences& then);

  /// Whether it must wait until the name is settled before it may travel.
  bool must_wait(const Reference& reference) const;
  /// Whether its owner, another worker, is known to have it listed.
  bool listed(const Reference& reference) const;
  /// Notes that it goes to a worker.
  TravelMark send(const Reference& reference, WorkerId to);
  /// Takes one that came. InvalidArgument for a mark that cannot be.
  Reference arrive(WorkerId from, const TravelMark& mark, Consequences& then);

  /// Takes a note.
  void take(WorkerId from, const Posting& note, Consequences& then);
  /// Takes what the handles have said.
  void take_releases(Consequences& then);
  /// All that was shared with a worker is void.
  void forget(WorkerId worker, const std::string& why, Consequences& then);

  /// Whether anything is shared with a worker.
  bool shares(WorkerId worker) const;
  /// Values of mine that others hold, and values of others that I hold.
  std::vector<Tie> left() const;
  std::size_t owned() const { return owned_.size(); }
  std::size_t held() const { return held_.size(); }
  /// A value of mine; null if it is not there.
  std::shared_ptr<void> cargo(ObjectId id) const {
    const auto found = owned_.find(id);
    return found != owned_.end() ? found->second.cargo : nullptr;
  }
  /// Whether a value of mine is there.
  bool has(ObjectId id) const { return owned_.count(id) > 0; }

 private:
  using Fork = std::pair<ObjectId, std::uint64_t>;
  struct Hash {
    std::size_t operator()(const ObjectId& id) const {
      return id.number * 0x9e3779b97f4a7c15u + static_cast<std::size_t>(id.creator);
    }
  };
  // A value of mine.
  struct Owned {
    std::shared_ptr<void> cargo;
    std::weak_ptr<Hold> hold;
    std::size_t handles = 0;
    std::size_t forks = 0;
  };
  enum class Stage { Naming, Adding, Listed };
  struct Debt {
    WorkerId to = 0;
    std::uint64_t pin = 0;
  };
  // A value of another worker.
  struct Held {
    WorkerId owner = 0;
    std::uint64_t fork = 0;
    Stage stage = Stage::Adding;
    std::weak_ptr<Hold> hold;
    std::size_t handles = 0;
    std::size_t pins = 0;
    std::vector<Debt> debts;  // who waits for me to be listed
    std::shared_ptr<Loss> loss;
  };
  // All that is between a worker and me.
  struct Share {
    std::set<Fork> forks;                // its, of my values
    std::map<std::uint64_t, Fork> pins;  // mine, for what is on its way there
    std::set<ObjectId> held;             // its values
  };

  std::uint64_t next() { return next_++; }
  // Forks that a holder numbers are even, those that an owner grants odd.
  std::uint64_t own_fork() { return next() * 2; }
  std::uint64_t granted_fork() { return next() * 2 + 1; }
  Reference handle(ObjectId id, Owned& owned);
  Reference handle(ObjectId id, Held& held);
  Reference lost(ObjectId id, WorkerId owner, const std::string& why);
  Held& hold(ObjectId id, WorkerId owner, std::uint64_t fork, Stage stage);
  Held* find(ObjectId id, std::uint64_t fork);
  void expect_possible(const TravelMark& mark) const;
  Reference granted(
      ObjectId id, WorkerId owner, std::uint64_t fork, Consequences& then);
  Reference lent(WorkerId from, const TravelMark& mark, Consequences& then);
  void listed(ObjectId id, std::uint64_t fork, Consequences& then);
  void lose(ObjectId id, const std::string& why, Consequences& then);
  void unpin(WorkerId from, std::uint64_t pin, Consequences& then);
  void remove_fork(
      WorkerId holder, ObjectId id, std::uint64_t fork, Consequences& then);
  void pay(Held& held, Consequences& then);
  void drop_if_unused(ObjectId id, Held& held, Consequences& then);
  void drop_if_unused(ObjectId id, Owned& owned, Consequences& then);

  WorkerId me_;
  std::uint64_t next_;
  std::shared_ptr<Releases> releases_;
  std::unordered_map<ObjectId, Owned, Hash> owned_;
  std::unordered_map<ObjectId, Held, Hash> held_;
  std::unordered_map<WorkerId, Share> shares_;
};

}  // namespace trireme::rpc
