// The open channels of a pipeline.
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
  comm::Message receive() const { return channel_.receive(); }
  /// InvalidArgument that names both ranks, unless this is the message that is
  /// expected.
  void check(const Stamp& got, const Stamp& expected) const;

 private:
  friend class ChannelBook;
  StepChannel(comm::Channel channel, const std::vector<int>& members)
      : channel_(std::move(channel)), members_(&members) {}

  comm::Channel channel_;
  /// Of the group, which outlives the step.
  const std::vector<int>* members_;
};

/// Opens this rank's ends of the channels of programs, and keeps them from step to
/// step. All have room for kChannelMessages, whatever the program, so a channel that
/// was opened once serves every program.
class ChannelBook {
 public:
  explicit ChannelBook(comm::Group group) : group_(std::move(group)) {}

  /// The channels of a program that begin or end here, by their number; the others are
  /// empty.
  std::vector<std::optional<StepChannel>> open(const Program& program);

 private:
  const comm::Channel& find(const Program& program, const sched::Channel& channel);

  comm::Group group_;
  /// By from, to, direction and the stages of an extra edge.
  std::map<std::tuple<int, int, bool, int, int>, comm::Channel> open_;
};

}  // namespace trireme::pipe
