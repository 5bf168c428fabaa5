// The open channels of a pipeline, each as large as some program has needed it.
#pragma once
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "trireme/comm/channel.h"
#include "trireme/comm/group.h"
#include "trireme/pipe/program.h"

namespace trireme::pipe {

/// Opens this rank's ends of the channels of programs, and keeps them from step to
/// step. All ranks must ask for the same programs in the same order: when a program
/// needs a larger channel, both ends move to a new one. The sender says so on the old
/// one, and the receiver waits for it: so a rank that has another program is noticed at
/// once, and not when the time is over.
class ChannelBook {
 public:
  explicit ChannelBook(comm::Group group) : group_(std::move(group)) {}

  /// The channels of a program that begin or end here, by their number; the others are
  /// empty. InvalidArgument if the other end of a channel has not moved with us.
  std::vector<std::optional<comm::Channel>> open(const Program& program);

 private:
  struct Open {
    int capacity = 0;
    std::optional<comm::Channel> channel;
  };
  comm::Group group_;
  /// By from, to, direction and the stages of an extra edge.
  std::map<std::tuple<int, int, bool, int, int>, Open> open_;
  int next_tag_ = 0;
};

}  // namespace trireme::pipe
