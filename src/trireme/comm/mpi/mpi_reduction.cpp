#include <algorithm>
#include <cstring>

#include "trireme/comm/mpi/mpi_collectives.h"
#include "trireme/comm/reduction_call.h"

namespace trireme::comm {
namespace {

/// A reduction over a communicator.
struct MpiReduction : ReductionCall {
  MpiReduction(MpiGroup& its_group, const Collective& call)
      : ReductionCall(call, its_group.rank(), its_group.size()), group(its_group) {}
  MpiGroup& group;
  BufferPool& pool() const { return group.world().runtime().pool(); }
};

// The value rides with the call itself.
void reduce_inline(const MpiReduction& r) {
  r.group.enter({r.input(), r.bytes()});
  if (r.wanted())
    r.reduce_all([&r](int k) { return r.group.payload(k); });
}

// Everybody who wants the result collects all values.
void reduce_small(const MpiReduction& r) {
  const auto count = static_cast<int>(r.bytes());
  Buffer all;
  if (r.wanted())
    all = r.pool().take(r.bytes() * static_cast<size_t>(r.size()));
  if (r.root() < 0)
    check_mpi(
        MPI_Iallgather(
            r.input(),
            count,
            MPI_BYTE,
            all.data(),
            count,
            MPI_BYTE,
            r.group.comm(),
            r.group.request()),
        "MPI_Iallgather");
  else
    check_mpi(
        MPI_Igather(
            r.input(),
            count,
            MPI_BYTE,
            all.data(),
            count,
            MPI_BYTE,
            r.root(),
            r.group.comm(),
            r.group.request()),
        "MPI_Igather");
  r.group.finish();
  if (r.wanted())
    r.reduce_all(
        [&](int k) { return all.data() + static_cast<size_t>(k) * r.bytes(); });
}

/// A large reduction as a pipeline over chunks: while the ranks trade their shards of
/// one chunk, they reduce those of the chunk before, and hand the results round.
class ChunkPipeline {
 public:
  explicit ChunkPipeline(const MpiReduction& reduction) : r_(reduction) {
    const auto ranks = static_cast<size_t>(r_.size());
    const size_t shard = r_.group.world().tuning().chunk_bytes / ranks /
                         kShardAlignment * kShardAlignment;
    shard_ = std::max(shard, kShardAlignment);
    // A chunk is what all ranks reduce of the result at once: in a scatter each has a
    // result of its own.
    chunk_ = r_.scatter() ? shard_ : shard_ * ranks;
    scratch_ = r_.pool().take(shard_ * (2 * ranks + 1));
  }

  void run() {
    const size_t chunks = (r_.bytes() + chunk_ - 1) / chunk_;
    for (size_t t = 0; t <= chunks; ++t) {
      if (t < chunks)
        trade(t);
      if (t > 0)
        hand_round(t - 1, reduce(t - 1));
      r_.group.finish();
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
  int before(int i) const { return (r_.rank() + r_.size() - i) % r_.size(); }
  int after(int i) const { return (r_.rank() + i) % r_.size(); }

  void trade(size_t chunk) {
    const size_t own = range(chunk, r_.rank()).bytes;
    for (int i = 1; i < r_.size(); ++i)
      r_.group.receive(before(i), scratch(chunk, before(i)), own);
    for (int i = 1; i < r_.size(); ++i)
      r_.group.send(after(i), input(chunk, after(i)), range(chunk, after(i)).bytes);
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
      r_.group.receive(before(i), r_.output() + theirs.begin, theirs.bytes);
    }
    for (int i = 1; i < r_.size(); ++i)
      if (r_.wanted_by(after(i)))
        r_.group.send(after(i), result, range(chunk, r_.rank()).bytes);
  }

  const MpiReduction& r_;
  size_t shard_ = 0;
  size_t chunk_ = 0;
  Buffer scratch_;
};

}  // namespace

void run_mpi_reduction(MpiGroup& group, const Collective& call) {
  const MpiReduction reduction(group, call);
  const size_t all = reduction.bytes() * static_cast<size_t>(group.size());
  if (!reduction.scatter() && reduction.bytes() > 0 &&
      reduction.bytes() <= MpiGroup::kPayload && group.carries_payload())
    return reduce_inline(reduction);
  group.enter();
  if (reduction.bytes() == 0)
    return;  // nothing to reduce, and perhaps no memory at all
  if (!reduction.scatter() && all <= group.world().tuning().small_bytes)
    return reduce_small(reduction);
  ChunkPipeline(reduction).run();
}

}  // namespace trireme::comm
