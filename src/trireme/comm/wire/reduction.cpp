#include <algorithm>
#include <cstring>

#include "trireme/comm/reduction_call.h"
#include "trireme/comm/wire/algorithms.h"

namespace trireme::comm {
namespace {

/// A reduction over a wire.
struct WireReduction : ReductionCall {
  WireReduction(WireSteps& its_steps, const Collective& call)
      : ReductionCall(call, its_steps.rank(), its_steps.size()), steps(its_steps) {}
  WireSteps& steps;
};

// The value rides with the call itself.
void reduce_inline(const WireReduction& r) {
  r.steps.enter({r.input(), r.bytes()});
  if (r.wanted())
    r.reduce_all([&r](int k) { return r.steps.payload(k); });
}

// Everybody who wants the result collects all values.
void reduce_small(const WireReduction& r) {
  Buffer all;
  if (r.wanted())
    all = r.steps.take(r.bytes() * static_cast<size_t>(r.size()));
  const auto place = [&](int k) {
    return all.data() + static_cast<size_t>(k) * r.bytes();
  };
  if (r.root() < 0) {
    gather_all(r.steps, {r.input(), r.bytes()}, all.data());
    return r.reduce_all(place);
  }
  if (!r.wanted())
    r.steps.send(r.root(), r.input(), r.bytes());
  for (int i = 1; i < r.size() && r.wanted(); ++i)
    r.steps.receive(r.steps.before(i), place(r.steps.before(i)), r.bytes());
  r.steps.finish();
  if (r.wanted())
    r.reduce_all([&](int k) { return k == r.rank() ? r.input() : place(k); });
}

/// A large reduction as a pipeline over chunks: while the ranks trade their shards of
/// one chunk, they reduce those of the chunk before, and hand the results round.
class ChunkPipeline {
 public:
  explicit ChunkPipeline(const WireReduction& reduction) : r_(reduction) {
    const auto ranks = static_cast<size_t>(r_.size());
    const size_t shard =
        r_.steps.tuning().chunk_bytes / ranks / kShardAlignment * kShardAlignment;
    shard_ = std::max(shard, kShardAlignment);
    // A chunk is what all ranks reduce of the result at once: in a scatter each has a
    // result of its own.
    chunk_ = r_.scatter() ? shard_ : shard_ * ranks;
    scratch_ = r_.steps.take(shard_ * (2 * ranks + 1));
  }

  void run() {
    const size_t chunks = (r_.bytes() + chunk_ - 1) / chunk_;
    for (size_t t = 0; t <= chunks; ++t) {
      if (t < chunks)
        trade(t);
      if (t > 0)
        hand_round(t - 1, reduce(t - 1));
      r_.steps.finish();
    }
  }

 private:
  /// Which bytes of the result `rank` reduces in a chunk.
  ByteRange range(size_t chunk, int rank) const {
    const size_t before = r_.scatter() ? 0 : shard_ * static_cast<size_t>(rank);
    const size_t begin = std::min(r_.bytes(), chunk * chunk_ + before);
    return {begin, std::min(shard_, r_.bytes() - begin)};
  }
  /// Our input for what `rank` reduces.
  const std::byte* input(size_t chunk, int rank) const {
    const size_t part = r_.scatter() ? r_.bytes() * static_cast<size_t>(rank) : 0;
    return r_.input() + part + range(chunk, rank).begin;
  }
  std::byte* scratch(size_t chunk, int rank) const {
    const size_t half = chunk % 2 * static_cast<size_t>(r_.size());
    return scratch_.data() + (half + static_cast<size_t>(rank)) * shard_;
  }
  int before(int i) const { return r_.steps.before(i); }
  int after(int i) const { return r_.steps.after(i); }

  void trade(size_t chunk) {
    const size_t own = range(chunk, r_.rank()).bytes;
    for (int i = 1; i < r_.size(); ++i)
      r_.steps.receive(before(i), scratch(chunk, before(i)), own);
    for (int i = 1; i < r_.size(); ++i)
      r_.steps.send(after(i), input(chunk, after(i)), range(chunk, after(i)).bytes);
  }

  // Gives where the result is: in the output, or in our scratch if only the root wants
  // it.
  std::byte* reduce(size_t chunk) {
    const ByteRange own = range(chunk, r_.rank());
    std::byte* out =
        r_.wanted() ? r_.output() + own.begin
                    : scratch_.data() + shard_ * 2 * static_cast<size_t>(r_.size());
    PerRank<const std::byte*> in(static_cast<size_t>(r_.size()));
    for (int k = 0; k < r_.size(); ++k)
      in[static_cast<size_t>(k)] = k == r_.rank() ? input(chunk, k) : scratch(chunk, k);
    r_.reduce(out, in.data(), own.bytes);
    return out;
  }

  void hand_round(size_t chunk, const std::byte* result) {
    if (r_.scatter())
      return;
    for (int i = 1; i < r_.size() && r_.wanted(); ++i) {
      const ByteRange theirs = range(chunk, before(i));
      r_.steps.receive(before(i), r_.output() + theirs.begin, theirs.bytes);
    }
    for (int i = 1; i < r_.size(); ++i)
      if (r_.wanted_by(after(i)))
        r_.steps.send(after(i), result, range(chunk, r_.rank()).bytes);
  }

  const WireReduction& r_;
  size_t shard_ = 0;
  size_t chunk_ = 0;
  Buffer scratch_;
};

}  // namespace

void reduce_in_chunks(WireSteps& steps, const Collective& call) {
  const WireReduction reduction(steps, call);
  ChunkPipeline(reduction).run();
}

void run_wire_reduction(WireSteps& steps, const Collective& call) {
  const WireReduction reduction(steps, call);
  const size_t all = reduction.bytes() * static_cast<size_t>(steps.size());
  if (!reduction.scatter() && reduction.bytes() > 0 && steps.carries(reduction.bytes()))
    return reduce_inline(reduction);
  steps.enter();
  if (reduction.bytes() == 0)
    return;  // nothing to reduce, and perhaps no memory at all
  if (!reduction.scatter() && all <= steps.tuning().small_bytes)
    return reduce_small(reduction);
  ChunkPipeline(reduction).run();
}

}  // namespace trireme::comm
