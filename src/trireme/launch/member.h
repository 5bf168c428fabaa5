// A launcher as one node of a job: it dials the leader, and brings words from there to
// its keeper and back.
#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/launch/mailbox.h"
#include "trireme/launch/options.h"
#include "trireme/launch/word.h"
#include "trireme/net/node.h"

namespace trireme::launch {

/// What a member needs to find its job.
struct MemberOptions {
  NodeCard card;
  /// Where the leader listens.
  net::Address leader;
  net::Security security;
  /// How long to try to reach it.
  std::chrono::milliseconds patience;
};

/// To be driven by one thread: take() when fd() is readable.
class Member : public net::Receiver {
 public:
  explicit Member(MemberOptions options);
  ~Member() override;

  int fd() const { return mailbox_.fd(); }
  /// Words for the keeper, those of the leader and of its end.
  std::vector<Word> take();
  /// A word of the keeper. With the first, it joins the job.
  void told(const Word& word);
  /// This node cannot go on.
  void leave(const std::string& why);

 private:
  struct Event {
    Word word;
    /// A session that has begun.
    net::Peer peer;
  };
  void received(const net::Peer& peer, net::InMessage message) override;
  void lost(const net::Peer& peer, net::Ending ending, const std::string& why) override;
  void dial();
  void give_up(const std::string& why);
  void send(const Word& word) const;

  const MemberOptions options_;
  Mailbox<Event> mailbox_;
  net::Peer leader_;
  /// Somebody asks to stop, or the job is over: the leader may go.
  std::atomic<bool> ending_{false};
  std::atomic<bool> leaving_{false};
  std::thread dialler_;
  // The last: it calls the others until it is gone.
  net::Node node_;
};

}  // namespace trireme::launch
