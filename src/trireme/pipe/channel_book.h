// The open channels of a pipeline, each as large as some program has needed it.
#pragma once
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "trireme/comm/channel.h"
#include "trireme/comm/group.h"
#include "trireme/pipe/program.h"
#include "trireme/pipe/stamp.h"

namespace trireme::pipe {

/// One end of a channel in a step.
class StepChannel {
 public:
  void send(const comm::Message& message) const { channel_.send(message); }
  /// The next message. If the sender has to leave a smaller channel first, waits for
  /// its word there; InvalidArgument if that is something else.
  comm::Message receive();
  /// InvalidArgument that names both ranks, unless this is the message that is wanted.
  void check(const Stamp& got, const Stamp& wanted) const;

 private:
  friend class ChannelBook;
  StepChannel(comm::Channel channel, const std::vector<int>& members)
      : channel_(std::move(channel)), members_(&members) {}

  comm::Channel channel_;
  /// Of the group, which outlives the step.
  const std::vector<int>* members_;
  /// The channel before this one, and what has to come there.
  std::optional<comm::Channel> left_;
  Stamp move_;
};

/// Opens this rank's ends of the channels of programs, and keeps them from step to
/// step. All ranks must ask for the same programs in the same order: when a program
/// needs a larger channel, both ends move to a new one. The sender says so on the old
/// one, and the receiver waits for it there when it needs the first message: so a rank
/// that has another program is noticed at once, and not when the time is over.
class ChannelBook {
 public:
  explicit ChannelBook(comm::Group group) : group_(std::move(group)) {}

  /// The channels of a program that begin or end here, by their number; the others are
  /// empty. `now` says the step and the call.
  std::vector<std::optional<StepChannel>> open(
      const Program& program, const Stamp& now = {});

 private:
  struct Open {
    int capacity = 0;
    /// How often both ends have moved.
    int generation = -1;
    std::optional<comm::Channel> channel;
  };
  std::optional<comm::Channel> move_on(
      Open& open, const Program& program, size_t channel, const Stamp& move);

  comm::Group group_;
  /// By from, to, direction and the stages of an extra edge.
  std::map<std::tuple<int, int, bool, int, int>, Open> open_;
};

}  // namespace trireme::pipe
