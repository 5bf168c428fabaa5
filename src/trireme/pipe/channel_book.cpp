#include "trireme/pipe/channel_book.h"

#include <bit>

#include "trireme/core/error.h"
#include "trireme/pipe/stamp.h"

namespace trireme::pipe {
namespace {

// What a stage holds on to is the schedule's business, and the proof has bounded it:
// the bytes under way need no bound of their own.
constexpr size_t kAnyBytes = size_t{1} << 62;

/// Waits until the sender of a channel has left it for the same program.
void await_move(const comm::Channel& old, const Stamp& move) {
  const Stamp got = Stamp::from_word(old.receive().header.word);
  if (got != move)
    throw InvalidArgument(text(
        "[pipe] expected rank ",
        old.edge().from,
        " of the pipeline to make a step of ",
        move.microbatches,
        " microbatches, as rank ",
        old.edge().to,
        " does, got one of ",
        got.microbatches,
        "; all ranks must make the same steps with as many microbatches"));
}

}  // namespace

std::vector<std::optional<comm::Channel>> ChannelBook::open(const Program& program) {
  const auto& channels = program.channels.channels();
  std::vector<std::optional<comm::Channel>> result(channels.size());
  const Stamp move{
      .microbatches = program.schedule.microbatches, .microbatch = Stamp::kMoves};
  std::vector<comm::Channel> left;
  for (size_t i = 0; i < channels.size(); ++i) {
    const sched::Channel& c = channels[i];
    Open& open = open_[{c.from, c.to, c.forward, c.from_stage, c.to_stage}];
    if (program.capacity[i] > open.capacity) {
      // In powers of two, so that growing batches do not open one for every size.
      open.capacity =
          static_cast<int>(std::bit_ceil(static_cast<unsigned>(program.capacity[i])));
      // Every rank counts all channels, its own or not: so both ends have one tag.
      const int tag = next_tag_++;
      if (open.channel && c.from == group_.rank())
        open.channel->send({.header = {.word = move.to_word()}});
      else if (open.channel)
        left.push_back(*open.channel);
      if (c.from == group_.rank() || c.to == group_.rank())
        open.channel.emplace(
            group_,
            comm::Edge{.from = c.from, .to = c.to, .tag = tag},
            comm::ChannelOptions{
                .capacity_messages = open.capacity, .capacity_bytes = kAnyBytes});
    }
    result[i] = open.channel;
  }
  // After all of ours have left, so that no two ranks wait for one another.
  for (const comm::Channel& old : left)
    await_move(old, move);
  return result;
}

}  // namespace trireme::pipe
