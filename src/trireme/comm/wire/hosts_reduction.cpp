#include <algorithm>
#include <cstring>

#include "trireme/comm/reduction_call.h"
#include "trireme/comm/wire/algorithms.h"
#include "trireme/comm/wire/hosts_call.h"

namespace trireme::comm {
namespace {

/// A reduction over hosts, as its ranks see it.
struct HostsReduction : ReductionCall {
  explicit HostsReduction(HostsCall& its_call)
      : ReductionCall(
            its_call.call(), its_call.group().rank(), its_call.group().size()),
        c(its_call) {}
  HostsCall& c;

  size_t input_bytes() const {
    return scatter() ? bytes() * static_cast<size_t>(size()) : bytes();
  }
  /// Reduces everybody's values, which have come to the leaders, from `at` on.
  void reduce_values(std::byte* out, size_t at) const {
    PerRank<const std::byte*> in(static_cast<size_t>(size()));
    for (int k = 0; k < size(); ++k)
      in[static_cast<size_t>(k)] = c.value(k) + at;
    reduce(out, in.data(), bytes());
  }
};

// The leader reduces for every rank of its host.
void scatter_small(const HostsReduction& r) {
  const HostLayout& layout = r.c.layout();
  const auto ranks = static_cast<size_t>(layout.ranks_of(layout.mine));
  r.c.announce();
  Buffer results;
  PerRank<Piece> give;
  if (r.c.leads())
    results = r.c.take(r.bytes() * ranks);
  for (size_t k = 0; r.c.leads() && k < ranks; ++k) {
    std::byte* out = results.data() + k * r.bytes();
    r.reduce_values(out, (static_cast<size_t>(r.rank()) + k) * r.bytes());
    give.push_back({out, r.bytes()});
  }
  r.c.hand_out(give, {r.output(), r.bytes()}, r.bytes());
}

// Everybody's values come to the leaders with the call, and results from them with
// their word.
void reduce_small(const HostsReduction& r) {
  r.c.enter({r.input(), r.input_bytes()});
  if (r.scatter())
    return scatter_small(r);
  const HostLayout& layout = r.c.layout();
  const bool here = r.root() < 0 || layout.host_of(r.root()) == layout.mine;
  const Buffer result = r.c.take(r.bytes());
  // Values may be missing if the ranks do not agree: then there is nothing to reduce.
  if (r.c.leads() && here && r.c.agreed())
    r.reduce_values(result.data(), 0);
  r.c.announce(here ? result.bytes() : std::span<std::byte>());
  if (r.wanted())
    std::memcpy(r.output(), result.data(), r.bytes());
}

// In any order: every host sums its own, and the hosts sum those.
void reduce_by_hosts_first(const HostsReduction& r) {
  const Collective& call = r.c.call();
  const auto count = static_cast<int64_t>(r.input_bytes()) /
                     static_cast<int64_t>(c10::elementSize(call.dtype));
  const c10::ScalarType sums = partial_dtype(call.dtype);
  const FoldStep host;
  Buffer partial, result;
  if (r.c.leads())
    partial = r.c.take(static_cast<size_t>(count) * c10::elementSize(sums));
  const Piece give{const_cast<std::byte*>(r.input()), r.input_bytes()};
  const Piece sum{partial.data(), partial.size()};
  r.c.inside(
      {.kind = CollectiveKind::Reduce,
       .op = call.op,
       .dtype = call.dtype,
       .root = 0,
       .count = count,
       .give = {&give, 1},
       .take = {&sum, 1},
       .fold = &host});
  const bool in_output = r.wanted() && !r.scatter();
  if (!in_output)
    result = r.c.take(r.input_bytes());
  std::byte* values = in_output ? r.output() : result.data();
  if (r.c.leads()) {
    reduce_in_chunks(
        r.c.leaders(),
        {.kind = CollectiveKind::AllReduce,
         .op = call.op == ReduceOp::Mean ? ReduceOp::Sum : call.op,
         .dtype = sums,
         .count = count,
         .give = {&sum, 1},
         .take = {&sum, 1}});
    const FoldStep end{.before = partial.data(), .ranks = r.size()};
    fold_kernel(call.op, call.dtype)(
        values, end, nullptr, 0, static_cast<size_t>(count));
  }
  r.c.spread({values, r.input_bytes()});
  const size_t part = r.scatter() ? static_cast<size_t>(r.rank()) * r.bytes() : 0;
  if (r.wanted() && !in_output)
    std::memcpy(r.output(), values + part, r.bytes());
}

}  // namespace

void reduce_over_hosts(HostsCall& c) {
  const HostsReduction reduction(c);
  const size_t all = reduction.input_bytes() * static_cast<size_t>(reduction.size());
  if (all > 0 && all <= c.tuning().small_bytes)
    return reduce_small(reduction);
  c.enter();
  c.announce();
  if (all == 0)
    return;
  if (c.call().order == SumOrder::Any)
    return reduce_by_hosts_first(reduction);
  reduce_by_chain(c);
}

}  // namespace trireme::comm
