#include <algorithm>
#include <cstring>

#include "trireme/comm/reduction_call.h"
#include "trireme/comm/shared/algorithms.h"

namespace trireme::comm {
namespace {

// Two ranks stream chunks of this size through their staging; it stays in the caches.
constexpr size_t kPairChunk = size_t{512} << 10;
// More ranks share out a chunk: larger, since each step costs a wake-up of everybody.
constexpr size_t kManyChunk = size_t{1} << 20;
// What is written to several places is written block by block, while it is in the
// cache.
constexpr size_t kCopyBlock = size_t{16} << 10;

/// A reduction in steps of a group.
struct Reduction : ReductionCall {
  Reduction(GroupSteps& its_steps, const Collective& call)
      : ReductionCall(call, its_steps.rank(), its_steps.size()), steps(its_steps) {}
  GroupSteps& steps;

  /// The part of `length` bytes that belongs to `rank`; all but the last are whole
  /// lines.
  ByteRange shard(size_t length, int rank) const {
    const auto ranks = static_cast<size_t>(size());
    const size_t part = ((length + ranks - 1) / ranks + kShardAlignment - 1) /
                        kShardAlignment * kShardAlignment;
    const size_t begin = std::min(length, part * static_cast<size_t>(rank));
    return {begin, std::min(part, length - begin)};
  }
};

// The value rides in the cache line of the call itself.
void reduce_inline(const Reduction& r) {
  r.steps.enter({r.input(), r.bytes()});
  if (r.wanted())
    r.reduce_all([&r](int k) { return r.steps.payload(k); });
}

void reduce_small(const Reduction& r) {
  const size_t place = r.steps.stage(r.bytes());
  std::memcpy(r.steps.staging(r.rank(), place), r.input(), r.bytes());
  r.steps.enter();
  if (r.wanted())
    r.reduce_all(
        [&](int k) { return k == r.rank() ? r.input() : r.steps.staging(k, place); });
}

// All data can be reached: each rank reduces its shard and writes it where it is
// wanted. Nothing here may throw: the peers wait until we are out of their memory. `in`
// has room for all ranks.
void reduce_in_place(
    const Reduction& r, std::span<const Place> places, const std::byte** in) noexcept {
  const SharedMemory& memory = r.steps.memory();
  const ByteRange mine = r.shard(r.bytes(), r.rank());
  for (size_t done = 0; done < mine.bytes; done += kCopyBlock) {
    const size_t at = mine.begin + done;
    const size_t length = std::min(kCopyBlock, mine.bytes - done);
    for (int k = 0; k < r.size(); ++k)
      in[k] = memory.at(places[static_cast<size_t>(k)].input) + at;
    const int first = r.root() < 0 ? r.rank() : r.root();
    std::byte* out = memory.at(places[static_cast<size_t>(first)].output) + at;
    r.reduce(out, in, length);
    for (int k = 0; r.root() < 0 && k < r.size(); ++k)
      if (k != first)
        std::memcpy(memory.at(places[static_cast<size_t>(k)].output) + at, out, length);
  }
}

// Two ranks: each copies a chunk in, and sums the peer's with its own.
void reduce_pair(const Reduction& r) {
  const size_t chunk = std::min(kPairChunk, r.steps.whole_half());
  const int peer = 1 - r.rank();
  const bool peer_wants = r.wanted_by(peer);
  for (size_t at = 0; at < r.bytes(); at += chunk) {
    const size_t length = std::min(chunk, r.bytes() - at);
    const size_t place = r.steps.stage(length);
    if (peer_wants)
      std::memcpy(r.steps.staging(r.rank(), place), r.input() + at, length);
    r.steps.meet();
    if (!r.wanted())
      continue;
    const std::byte* in[2];
    in[r.rank()] = r.input() + at;
    in[peer] = r.steps.staging(peer, place);
    r.reduce(r.output() + at, in, length);
  }
}

// Many ranks: reduce-scatter and all-gather as a pipeline over chunks. In step t a rank
// stages chunk t, reduces its shard of chunk t - 1, and collects the results of chunk t
// - 2.
void reduce_many(const Reduction& r) {
  const size_t room = r.steps.whole_half();
  const size_t chunk =
      std::min(kManyChunk, room / 2 / kShardAlignment * kShardAlignment);
  const size_t chunks = (r.bytes() + chunk - 1) / chunk;
  const size_t results = r.shard(chunk, 0).bytes;
  const auto length_of = [&](size_t c) {
    return std::min(chunk, r.bytes() - c * chunk);
  };
  PerRank<const std::byte*> in(r.size());
  size_t before = 0;  // the place of the previous step
  for (size_t t = 0; t < chunks + 2; ++t) {
    const size_t place = r.steps.stage(chunk + results);
    std::byte* mine = r.steps.staging(r.rank(), place);
    if (t < chunks) {
      const std::byte* from = r.input() + t * chunk;
      const ByteRange own = r.shard(length_of(t), r.rank());
      const size_t after = own.begin + own.bytes;
      std::memcpy(mine, from, own.begin);
      std::memcpy(mine + after, from + after, length_of(t) - after);
    }
    if (t >= 1 && t <= chunks) {
      const size_t at = (t - 1) * chunk;
      const ByteRange own = r.shard(length_of(t - 1), r.rank());
      for (int k = 0; k < r.size(); ++k)
        in[k] = k == r.rank() ? r.input() + at + own.begin
                              : r.steps.staging(k, before) + own.begin;
      r.reduce(mine + chunk, in.data(), own.bytes);
      if (r.wanted())
        std::memcpy(r.output() + at + own.begin, mine + chunk, own.bytes);
    }
    if (t >= 2 && r.wanted()) {
      const size_t at = (t - 2) * chunk;
      for (int i = 1; i < r.size(); ++i) {
        const int k = (r.rank() + i) % r.size();  // not all at the same rank at once
        const ByteRange theirs = r.shard(length_of(t - 2), k);
        std::memcpy(
            r.output() + at + theirs.begin,
            r.steps.staging(k, before) + chunk,
            theirs.bytes);
      }
    }
    if (t <= chunks)
      r.steps.meet();
    before = place;
  }
}

void run_all_reduce(const Reduction& r, const Collective& call) {
  if (r.bytes() <= CallSlot::kPayload)
    return reduce_inline(r);
  if (r.bytes() <= small_bytes(r.steps))
    return reduce_small(r);
  PerRank<Place> places(r.size());
  PerRank<const std::byte*> in(r.size());
  if (enter_with_place(r.steps, call, places)) {
    reduce_in_place(r, places, in.data());
    return r.steps.meet_to_part();
  }
  r.size() == 2 ? reduce_pair(r) : reduce_many(r);
}

// Input is size() parts; rank k gets the reduction of everybody's part k.
void run_reduce_scatter(const Reduction& r, const Collective& call) {
  const auto ranks = static_cast<size_t>(r.size());
  const auto own = static_cast<size_t>(r.rank());
  PerRank<const std::byte*> in(r.size());
  if (r.bytes() * ranks <= small_bytes(r.steps)) {
    const size_t place = r.steps.stage(r.bytes() * ranks);
    std::memcpy(r.steps.staging(r.rank(), place), r.input(), r.bytes() * ranks);
    r.steps.enter();
    for (int k = 0; k < r.size(); ++k)
      in[k] = r.steps.staging(k, place) + own * r.bytes();
    return r.reduce(r.output(), in.data(), r.bytes());
  }
  PerRank<Place> places(r.size());
  if (enter_with_place(r.steps, call, places)) {
    for (int k = 0; k < r.size(); ++k)
      in[k] = r.steps.memory().at(places[k].input) + own * r.bytes();
    r.reduce(r.output(), in.data(), r.bytes());
    return r.steps.meet_to_part();
  }
  const size_t window = std::max(
      kShardAlignment,
      std::min(kManyChunk, r.steps.whole_half()) / ranks / kShardAlignment *
          kShardAlignment);
  for (size_t at = 0; at < r.bytes(); at += window) {
    const size_t length = std::min(window, r.bytes() - at);
    const size_t place = r.steps.stage(window * ranks);
    std::byte* mine = r.steps.staging(r.rank(), place);
    for (size_t k = 0; k < ranks; ++k)
      if (k != own)
        std::memcpy(mine + k * window, r.input() + k * r.bytes() + at, length);
    r.steps.meet();
    for (int k = 0; k < r.size(); ++k)
      in[k] = k == r.rank() ? r.input() + own * r.bytes() + at
                            : r.steps.staging(k, place) + own * window;
    r.reduce(r.output() + at, in.data(), length);
  }
}

}  // namespace

void run_reduction(GroupSteps& steps, const Collective& call) {
  const Reduction reduction(steps, call);
  if (reduction.bytes() == 0)
    return steps.enter();  // nothing to reduce, and perhaps no memory at all
  if (reduction.scatter())
    run_reduce_scatter(reduction, call);
  else
    run_all_reduce(reduction, call);
}

}  // namespace trireme::comm
