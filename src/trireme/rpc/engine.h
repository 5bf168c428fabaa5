// What drives the protocol: a lock around it, a thread for its time, and the ways in
// and out.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/rpc/blocking.h"
#include "trireme/rpc/protocol.h"

namespace trireme::rpc {

/// When a call leaves.
enum class Haste {
  Gather,  ///< in some microseconds, with others that are made meanwhile
  Now,     ///< at once: somebody waits for it
  Later,   ///< with what leaves next for that worker, or in some 10 ms
};

struct EngineOptions {
  ProtocolOptions protocol;
  WorkerId me = 0;
  int world_size = 1;
  /// Runs calls that have come in, on the thread that brings them: it must not wait.
  std::function<void(std::vector<Incoming> calls)> serve;
  /// Raises what make_token has made.
  std::function<void(const std::shared_ptr<void>& token, const std::string& why)>
      cancel;
  /// Hears that all that was shared with a worker is void: it is gone, or has begun
  /// anew. After the calls between the two have ended.
  std::function<void(WorkerId worker, const std::string& why)> forget{};
};

/// One worker's engine. Calls come from any thread; what they lead to is done on the
/// same thread, without the lock: sending, ending calls, serving.
///
/// Packets leave at once where somebody waits for them. Otherwise they may gather for
/// some microseconds, until the engine's own thread sends what is there: many small
/// calls then share few packets.
class Engine : public PacketReceiver, public BlockingHook {
 public:
  explicit Engine(EngineOptions options);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Begins, with the way out, which must outlive stop().
  void start(Transport& transport);
  /// Ends the engine's thread; all calls that wait end with Lost, for that reason.
  void stop(const std::string& why);

  /// Sends a call. What gathers leaves when block() is called, or the engine's thread
  /// comes by.
  std::uint64_t call(
      WorkerId to,
      Request request,
      std::unique_ptr<Completion> completion,
      Haste haste);
  void cancel(std::uint64_t call);
  /// Without `hurry` the answer may gather with others, too.
  void respond(const Incoming& incoming, Status status, Payload payload, bool hurry);

  /// A name for a value that a call shall make on another worker.
  Reference name(WorkerId owner);
  /// No call will make the value of that name.
  void abandon(ObjectId name);
  /// A value of this worker.
  Reference own(std::shared_ptr<void> cargo);

  /// Sends what has gathered.
  void flush();

  // Packets, from the transport.
  void received(WorkerId from, Packet packet) override;
  void lost(WorkerId worker, const std::string& why) override;
  void gone(WorkerId worker, const std::string& why) override;

  // A thread that has called is about to wait: for what has gathered, perhaps.
  void block() override;

  /// Calls that wait for an answer, incoming ones that have none yet, messages that
  /// were not acknowledged, and what is still to be done: with references that were let
  /// go, or on threads that are at it.
  struct Load {
    std::size_t waiting = 0;
    std::size_t running = 0;
    std::size_t unsent = 0;
    std::size_t undone = 0;
    bool idle() const { return waiting + running + unsent + undone == 0; }
  };
  Load load() const;
  std::size_t waiting(WorkerId worker) const;
  /// Why a worker is gone; empty if it is not.
  std::string why_gone(WorkerId worker) const;
  /// Counts all that was ever begun here.
  std::uint64_t activity() const;
  /// The calls that wait for their end, a line each.
  std::vector<std::string> outstanding() const;
  /// References that still lead from worker to worker.
  std::vector<Tie> left() const;
  /// A value of this worker; null if it is not there.
  std::shared_ptr<void> cargo(ObjectId id) const;
  const std::shared_ptr<Releases>& releases() const { return releases_; }

 private:
  // When what a change leads to leaves: at once, after a moment, at once unless
  // something gathers, with which it then leaves, or with what leaves next.
  enum class Leave { Now, Soon, Along, Later };
  static Leave leave(bool hurry) { return hurry ? Leave::Now : Leave::Soon; }
  static Leave leave(Haste haste);
  template <class Change>
  void change(Leave leave, const Change& change);
  void perform(Effects effects);
  bool keeps_gathering();
  void send(WorkerId to, Packet packet);
  void run();
  void sleep(Time next);
  bool want_by(Time by);
  void wake();
  void want_wake(Time by);

  EngineOptions options_;
  std::shared_ptr<Releases> releases_;
  Transport* transport_ = nullptr;

  mutable std::mutex mutex_;
  Protocol protocol_;
  std::size_t gathered_ = 0;       // calls and answers that wait for company
  std::size_t seen_gathered_ = 0;  // of them when the thread last came by
  bool has_gathered_ = false;      // something since then

  // The thread sleeps on word_ until planned_ (ticks of the clock).
  std::atomic<std::uint32_t> word_{0};
  std::atomic<bool> asleep_{false};
  std::atomic<Time::rep> planned_{0};
  std::atomic<bool> active_{false};   // something has happened since the last tick
  std::atomic<bool> gathers_{false};  // something waits for a flush
  std::atomic<bool> ends_{false};
  std::atomic<std::size_t> performing_{0};  // threads that do what is to be done
  std::thread thread_;
};

}  // namespace trireme::rpc
