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

/// What the tensors of a message take.
int64_t bytes_of(const comm::Message& message);

/// One end of a channel in a step.
class StepChannel {
 public:
  /// InvalidArgument if the message is larger than its share of the bytes that the
  /// channel may hold.
  void send(const comm::Message& message) const;
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
  /// How many messages can be held at once, and their bytes in all; 0: any.
  int64_t most_held_ = 1;
  int64_t bytes_ = 0;
};

/// Opens this rank's ends of the channels of programs, and keeps them from step to
/// step. All have room for kChannelMessages, whatever the program, so a channel that
/// was opened once serves every program.
class ChannelBook {
 public:
  /// `bytes` is the most that messages of a channel may take at once; 0: any. It is
  /// never waited for: a message that is too large for it is refused.
  explicit ChannelBook(comm::Group group, int64_t bytes = 0)
      : group_(std::move(group)), bytes_(bytes) {}

  /// The channels of a program that begin or end here, by their number; the others are
  /// empty.
  std::vector<std::optional<StepChannel>> open(const Program& program);

 private:
  const comm::Channel& find(const Program& program, const sched::Channel& channel);

  comm::Group group_;
  int64_t bytes_;
  /// By from, to, direction and the stages of an extra edge.
  std::map<std::tuple<int, int, bool, int, int>, comm::Channel> open_;
};

}  // namespace trireme::pipe
