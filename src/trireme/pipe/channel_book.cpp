#include "trireme/pipe/channel_book.h"

#include <algorithm>
#include <bit>

#include "trireme/core/error.h"
#include "trireme/pipe/rank_text.h"

namespace trireme::pipe {
namespace {

// What a stage holds on to is the schedule's business, and the proof has bounded it:
// the bytes under way need no bound of their own.
constexpr size_t kAnyBytes = size_t{1} << 62;

// Capacities are powers of two, so that no channel moves more often.
constexpr int kGenerations = 32;

/// The same for a channel in all programs of a pipeline: so both ends find one another
/// even if they run different ones, and the first message tells it.
int tag_of(const sched::Schedule& schedule, const sched::Channel& c, int generation) {
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
  return (2 * kind + (c.forward ? 0 : 1)) * kGenerations + generation;
}

}  // namespace

comm::Message StepChannel::receive() {
  if (left_) {
    check(Stamp::from_word(left_->receive().header.word), move_);
    left_.reset();
  }
  return channel_.receive();
}

void StepChannel::check(const Stamp& got, const Stamp& wanted) const {
  if (got.to_word() == wanted.to_word())
    return;
  refuse_stamp(
      got,
      wanted,
      {.sender = rank_text(channel_.edge().from, *members_),
       .receiver = rank_text(channel_.edge().to, *members_)});
}

/// Opens a channel that is large enough; gives the one before it to its receiver.
std::optional<comm::Channel> ChannelBook::move_on(
    Open& open, const Program& program, size_t channel, const Stamp& move) {
  const sched::Channel& c = program.channels.channels()[channel];
  // In powers of two, so that growing batches do not open one for every size.
  open.capacity =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(program.capacity[channel])));
  ++open.generation;
  const bool sends = c.from == group_.rank();
  if (!sends && c.to != group_.rank())
    return {};
  std::optional<comm::Channel> old = std::move(open.channel);
  if (old && sends)
    old->send({.header = {.word = move.to_word()}});
  open.channel.emplace(
      group_,
      comm::Edge{
          .from = c.from,
          .to = c.to,
          .tag = tag_of(program.schedule, c, open.generation)},
      comm::ChannelOptions{
          .capacity_messages = open.capacity, .capacity_bytes = kAnyBytes});
  return sends ? std::nullopt : std::move(old);
}

std::vector<std::optional<StepChannel>> ChannelBook::open(
    const Program& program, const Stamp& now) {
  const auto& channels = program.channels.channels();
  std::vector<std::optional<StepChannel>> result(channels.size());
  Stamp move = now;
  move.microbatches = program.schedule.microbatches;
  move.microbatch = Stamp::kMoves;
  for (size_t i = 0; i < channels.size(); ++i) {
    const sched::Channel& c = channels[i];
    Open& open = open_[{c.from, c.to, c.forward, c.from_stage, c.to_stage}];
    std::optional<comm::Channel> left;
    if (program.capacity[i] > open.capacity)
      left = move_on(open, program, i, move);
    if (!open.channel)
      continue;
    result[i] = StepChannel(*open.channel, group_.members());
    result[i]->left_ = std::move(left);
    result[i]->move_ = move;
  }
  return result;
}

}  // namespace trireme::pipe
