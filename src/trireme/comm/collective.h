// What a collective is, as plain data: the front end describes, an engine carries out.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <c10/core/ScalarType.h>

namespace trireme::comm {

/// How the ranks' values become one. Mean is a sum divided by the number of ranks.
enum class ReduceOp : uint8_t { Sum, Mean, Min, Max, Product, BitAnd, BitOr };

/// In which order a reduction takes the ranks' values. Ranks: in the order of the
/// ranks, so that the result has the same bits on every backend and every number of
/// hosts. Any: in the order that is fastest; the same on all ranks, but not with
/// another number of hosts.
enum class SumOrder : uint8_t { Ranks, Any };

/// What the ranks do together. The uneven kinds and Split are made of several calls;
/// they have names of their own, so that none of them can meet another call by mistake.
enum class CollectiveKind : uint8_t {
  Barrier,
  AllReduce,
  Reduce,
  ReduceScatter,
  Broadcast,
  AllGather,
  Gather,
  Scatter,
  AllToAll,
  AllGatherUneven,
  AllToAllUneven,
  Split,
};

/// A run of bytes that a rank gives or takes.
struct Piece {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

struct FoldStep;

/// One collective call of one rank. Kind, op, dtype, root, count and order must be the
/// same on all ranks: an engine checks that before it moves a byte.
///
/// Reductions read give[0] and write take[0]; reduce_scatter gives size() equal parts
/// in one piece. The others only move bytes: a rank gives nothing, one piece that all
/// readers read, or one piece a reader; take[k] is what it reads from rank k (empty:
/// nothing).
struct Collective {
  CollectiveKind kind = CollectiveKind::Barrier;
  ReduceOp op = ReduceOp::Sum;
  c10::ScalarType dtype = c10::ScalarType::Byte;
  /// The rank that is special, or -1.
  int root = -1;
  /// Elements that a rank contributes: of the longest piece where pieces differ.
  int64_t count = 0;
  SumOrder order = SumOrder::Ranks;
  std::span<const Piece> give;
  std::span<const Piece> take;
  /// The signature of the call that this one is a part of, for errors: that is what
  /// the user has called. Zero: of none.
  uint64_t part_of = 0;
  /// A reduce to a root that is one host's part of a reduction over several; see
  /// reduce_kernel.h. The root gives what came before, everybody the number of ranks.
  const FoldStep* fold = nullptr;
};

/// Whether a rank that gives has one piece a reader, rather than one for all.
bool gives_apart(CollectiveKind kind);

/// What a rank gives to `reader`; an empty piece if that one does not read from it.
Piece given_to(const Collective& call, int reader);

/// Carries out what `rank` gives to itself. For a group of one that is all there is.
void take_own(const Collective& call, int rank);

/// The part of a call that all ranks must agree on, packed without loss into one word.
/// NotSupported for a root or a count that has no room there.
uint64_t signature(const Collective& call);

/// A signature in words: "all_reduce sum float32[1024]", "broadcast int64[3] from rank
/// 2".
std::string describe(uint64_t signature);

/// What ranks that made different calls are told: who called what. One signature a
/// member; members are ranks in the world.
std::string describe_mismatch(
    std::span<const uint64_t> signatures, std::span<const int> members);

/// "rank 2", "ranks 1, 3 and 4".
std::string rank_list(std::span<const int> ranks);

/// "rank 1", as a group counts, or "rank 1 (world rank 5)" where the world counts
/// otherwise. `members` are the ranks in the world; empty: the same.
std::string rank_text(int rank, std::span<const int> members);

/// "the world", "the group of ranks 1 and 3"; of many ranks the first eight.
std::string group_text(std::span<const int> members, int world_size);

std::string to_string(CollectiveKind kind);
std::string to_string(ReduceOp op);
/// The dtype as users write it: float32, bfloat16, int64, bool.
std::string dtype_name(c10::ScalarType dtype);

}  // namespace trireme::comm
