// Calls and references between workers: all decisions, no threads, no sockets, no
// clock.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trireme/rpc/deadline_queue.h"
#include "trireme/rpc/link.h"
#include "trireme/rpc/references.h"
#include "trireme/rpc/transport.h"

namespace trireme::rpc {

/// How a call ended.
enum class Status : std::uint8_t {
  Value,      ///< the function has returned
  Failed,     ///< it has thrown
  Refused,    ///< the callee has not run it: it knows none such, or may not
  Full,       ///< the callee has not run it: too much waits there already
  Lost,       ///< the callee is gone, or has forgotten this worker: it may have run
  Late,       ///< the deadline has passed
  Cancelled,  ///< the caller did not want it any more
};

/// What a call says, in one direction.
struct Payload {
  std::string bytes;
  std::vector<Part> parts;
  std::vector<Reference> references;
};

/// All that it takes on its way, nearly.
std::uint64_t bytes_of(const Payload& payload);

/// A call that goes out.
struct Request {
  Payload payload;
  Time deadline = Time::max();
  /// May run twice: where it may have been lost it is sent again, a few times.
  bool idempotent = false;
  /// The value that it makes on the callee, for remote(): from Protocol::name(), or
  /// from own() for a call of this worker to itself.
  Reference creates;
};

/// What has become of a call.
struct Outcome {
  Status status = Status::Value;
  Payload payload;
  /// For Lost: why.
  std::string why;
};

/// Who waits for a call.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual void finish(Outcome outcome) = 0;
  /// The call, for people.
  virtual std::string text() const { return "a call"; }
};

/// A call that has come in: to be run, and answered with respond().
struct Incoming {
  WorkerId from = 0;
  std::uint64_t call = 0;
  std::uint64_t round = 0;
  Payload payload;
  /// When the caller gives up.
  Time deadline = Time::max();
  /// What the call is cancelled by, and where the value goes that it makes, if it makes
  /// one: from ProtocolOptions.
  std::shared_ptr<void> token;
  Reference creates;
  /// More of that worker is under way than may be: it is to be answered so.
  bool full = false;
};

/// What the protocol wants done, in the order of the members, without any lock.
struct Effects {
  std::vector<std::pair<WorkerId, Packet>> packets;
  /// Workers that nothing more is to be had from: the transport lets them go.
  std::vector<WorkerId> cut_off;
  std::vector<std::pair<std::unique_ptr<Completion>, Outcome>> finished;
  std::vector<Incoming> calls;
  struct Cancel {
    std::shared_ptr<void> token;
    std::string why;
  };
  std::vector<Cancel> cancelled;
  /// Workers with whom all that was shared is void, and why.
  std::vector<std::pair<WorkerId, std::string>> forgotten;
  std::vector<std::shared_ptr<void>> dropped;
};

struct ProtocolOptions {
  LinkOptions link;
  /// How many calls of one worker may wait or run at once; more are answered with Full.
  std::size_t calls_per_worker = 4096;
  /// And of how many bytes: one that comes when there are so many is turned away, too.
  std::uint64_t bytes_per_worker = std::uint64_t{1} << 30;
  /// How often an idempotent call is sent again before it counts as lost, too: once a
  /// lease to a worker that stays silent.
  int retries = 4;
  /// Makes what an incoming call is cancelled by.
  std::function<std::shared_ptr<void>()> make_token;
  /// Makes the place of a value that another worker wants made.
  std::function<std::shared_ptr<void>()> make_cargo;
};

/// One worker's side of everything. Entry points change its books; take_effects() then
/// says what to do. Not safe for threads: who uses it has a lock, or one thread.
class Protocol {
 public:
  /// `first` begins above all numbers that this worker has ever used: the time.
  Protocol(
      ProtocolOptions options,
      WorkerId me,
      int world_size,
      std::uint64_t first,
      std::shared_ptr<Releases> releases);
  ~Protocol();

  /// A name for a value that a call shall make.
  Reference name(WorkerId owner) { return references_.name(owner); }
  /// The call that was to make its value will never be made.
  void abandon(ObjectId name, Time now);
  /// A value of this worker.
  Reference own(std::shared_ptr<void> cargo) {
    return references_.own(std::move(cargo));
  }

  /// Sends a call; its number.
  std::uint64_t call(
      WorkerId to, Request request, std::unique_ptr<Completion> completion, Time now);
  /// The caller does not want it any more.
  void cancel(std::uint64_t call, Time now);
  /// The answer to an incoming call.
  void respond(const Incoming& incoming, Status status, Payload payload, Time now);

  /// Takes a packet; one that no worker would write ends all with its sender.
  void receive(WorkerId from, Packet packet, Time now);
  void lost(WorkerId worker, Time now);
  void gone(WorkerId worker, const std::string& why, Time now);

  /// Looks at the time and at what the handles have said.
  void tick(Time now);
  /// When tick() wants to be called next.
  Time next() const;

  /// What is to be done. Without `flush`, what may wait for company stays in the links.
  Effects take_effects(Time now, bool flush = true);

  const References& references() const { return references_; }
  /// Calls that this worker waits for: all, and those to one worker.
  std::size_t waiting() const { return pending_.size(); }
  std::size_t waiting(WorkerId worker) const;
  /// Incoming calls that are not answered yet.
  std::size_t running() const;
  /// Messages that were not acknowledged.
  std::size_t unsent() const;
  /// Counts all that this worker has ever begun: calls, answers, notes.
  std::uint64_t activity() const;
  /// The calls that wait, a line each.
  std::vector<std::string> outstanding(Time now) const;
  /// Why a worker is gone, if it is.
  const std::optional<std::string>& gone(WorkerId worker) const;

 private:
  struct Pending;
  struct Peer;
  struct Draft;

  Peer& peer(WorkerId worker);
  void take_own_request(std::uint64_t call);
  void send_request(std::uint64_t call, Time now);
  void post(Draft draft, Time now);
  void finish(std::uint64_t call, Outcome outcome, Time now);
  void finish_early(std::uint64_t call, Status status, Time now);
  void carry_out(Consequences then, Time now);
  void take_message(WorkerId from, Message message, Time now);
  void take_request(WorkerId from, Message message, Time now);
  void take_response(WorkerId from, Message message, Time now);
  void take_cancel(WorkerId from, std::uint64_t call);
  void voided(WorkerId worker, const std::string& why, Time now);
  void forget(WorkerId worker, const std::string& why, Time now);
  bool stop_running(Peer& caller, std::uint64_t call);
  void cut_off(WorkerId worker, const std::string& why, Time now);
  void touch(WorkerId worker);

  ProtocolOptions options_;
  WorkerId me_;
  const std::uint64_t first_call_;
  std::uint64_t next_call_;
  References references_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<WorkerId> touched_;  // peers whose links may have something to send
  std::unordered_map<std::uint64_t, std::unique_ptr<Pending>> pending_;
  DeadlineQueue deadlines_;
  // Messages with a reference to a value whose owner may not know its name yet.
  std::map<ObjectId, std::vector<Draft>> waiting_;
  Effects effects_;
};

}  // namespace trireme::rpc
