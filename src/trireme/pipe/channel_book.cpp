#include "trireme/pipe/channel_book.h"

#include <algorithm>

#include "trireme/comm/clock_offset.h"
#include "trireme/comm/collective.h"
#include "trireme/core/error.h"

namespace trireme::pipe {
namespace {

// What a stage holds on to is the schedule's business, and the schedule bounds how many
// messages that is: so a bound on bytes is one on the size of a message, and a sender
// that waited for bytes could wait for ever.
constexpr size_t kAnyBytes = size_t{1} << 62;

/// The same for a channel in all programs of a pipeline: so both ends find one another
/// even if they run different ones, and the first message tells it.
int tag_of(const sched::Schedule& schedule, const sched::Channel& c) {
  int kind = 0;
  if (c.from_stage >= 0) {
    const auto& edges = schedule.extra_edges;
    const auto found =
        std::find_if(edges.begin(), edges.end(), [&](const sched::StageEdge& edge) {
          return edge.from == std::min(c.from_stage, c.to_stage) &&
                 edge.to == std::max(c.from_stage, c.to_stage);
        });
    TRIREME_ASSERT(found != edges.end());
    kind = 1 + static_cast<int>(found - edges.begin());
  }
  // Clocks and links are measured over the lowest.
  return comm::kClockTag + 1 + 2 * kind + (c.forward ? 0 : 1);
}

}  // namespace

int64_t bytes_of(const comm::Message& message) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : message.tensors)
    bytes += tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

void StepChannel::send(const comm::Message& message) const {
  if (bytes_ > 0) {
    const int64_t size = bytes_of(message);
    if (size > bytes_ / most_held_)
      throw InvalidArgument(text(
          "[pipe] expected messages of up to ",
          bytes_ / most_held_,
          " bytes from ",
          comm::rank_text(channel_.edge().from, *members_),
          " to ",
          comm::rank_text(channel_.edge().to, *members_),
          ", since ",
          most_held_,
          " of them can be held at once within channel_bytes = ",
          bytes_,
          ", got ",
          size,
          "; raise it, use smaller microbatches, or a schedule that keeps fewer"));
  }
  channel_.send(message);
}

void StepChannel::check(const Stamp& got, const Stamp& expected) const {
  if (got.to_word() == expected.to_word())
    return;
  refuse_stamp(
      got,
      expected,
      {.sender = comm::rank_text(channel_.edge().from, *members_),
       .receiver = comm::rank_text(channel_.edge().to, *members_)});
}

const comm::Channel& ChannelBook::find(
    const Program& program, const sched::Channel& c) {
  const std::tuple key{c.from, c.to, c.forward, c.from_stage, c.to_stage};
  if (const auto known = open_.find(key); known != open_.end())
    return known->second;
  comm::Channel opened(
      group_,
      comm::Edge{.from = c.from, .to = c.to, .tag = tag_of(program.schedule, c)},
      comm::ChannelOptions{
          .capacity_messages = kChannelMessages, .capacity_bytes = kAnyBytes});
  return open_.emplace(key, std::move(opened)).first->second;
}

std::vector<std::optional<StepChannel>> ChannelBook::open(const Program& program) {
  const auto& channels = program.channels.channels();
  std::vector<std::optional<StepChannel>> result(channels.size());
  for (size_t i = 0; i < channels.size(); ++i) {
    if (channels[i].from != group_.rank() && channels[i].to != group_.rank())
      continue;
    result[i] = StepChannel(find(program, channels[i]), group_.members());
    result[i]->most_held_ = std::max<int64_t>(1, program.most_held[i]);
    result[i]->bytes_ = bytes_;
  }
  return result;
}

}  // namespace trireme::pipe
