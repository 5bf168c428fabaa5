// What every way of reducing needs of a call, worked out once.
#pragma once
#include <cstddef>

#include "trireme/comm/collective.h"
#include "trireme/comm/per_rank.h"
#include "trireme/comm/reduce_kernel.h"

namespace trireme::comm {

/// A run of bytes within something longer.
struct ByteRange {
  size_t begin = 0;
  size_t bytes = 0;
};

/// An all_reduce, reduce or reduce_scatter, as one rank sees it.
class ReductionCall {
 public:
  ReductionCall(const Collective& call, int rank, int size)
      : rank_(rank),
        size_(size),
        root_(call.root),
        item_(c10::elementSize(call.dtype)),
        kernel_(reduce_kernel(call.op, call.dtype)),
        scatter_(call.kind == CollectiveKind::ReduceScatter),
        input_(call.give[0].data),
        output_(call.take.empty() ? nullptr : call.take[0].data),
        bytes_(static_cast<size_t>(call.count) * item_) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The only rank that wants the result, or -1.
  int root() const { return root_; }
  bool wanted_by(int rank) const { return root_ < 0 || root_ == rank; }
  bool wanted() const { return wanted_by(rank_); }
  /// Whether everybody gets its own part, rather than the whole.
  bool scatter() const { return scatter_; }
  const std::byte* input() const { return input_; }
  std::byte* output() const { return output_; }
  /// Of the result.
  size_t bytes() const { return bytes_; }

  /// Reduces `length` bytes of every rank's `in`.
  void reduce(std::byte* out, const std::byte* const* in, size_t length) const {
    kernel_(out, in, size_, length / item_);
  }
  /// Reduces what all ranks gave, the start of which `part_of` says of each.
  template <class PartOf>
  void reduce_all(const PartOf& part_of) const {
    PerRank<const std::byte*> in(static_cast<size_t>(size_));
    for (int k = 0; k < size_; ++k)
      in[static_cast<size_t>(k)] = part_of(k);
    reduce(output_, in.data(), bytes_);
  }

 private:
  int rank_, size_, root_;
  size_t item_;
  ReduceKernel kernel_;
  bool scatter_;
  const std::byte* input_;
  std::byte* output_;
  size_t bytes_;
};

/// Where shards begin: on a cache line.
inline constexpr size_t kShardAlignment = 64;

}  // namespace trireme::comm
