#include <algorithm>
#include <cstring>

#include "trireme/comm/reduction_call.h"
#include "trireme/comm/wire/hosts_call.h"

namespace trireme::comm {
namespace {

// Pieces that may be under way between two hosts.
constexpr size_t kDepth = 4;

/// A large reduction as a pipeline over the hosts. Every piece goes down the chain of
/// hosts as partial sums, to which each host adds its ranks in their order; the last
/// host has the result, which goes back up, or to the host of the rank that wants it.
///
///     host 0   fold 0   fold 1   fold 2   …      out 0    out 1
///     host 1            fold 0   fold 1   fold 2 …
///     host 2                     fold 0   fold 1 …        with out 0 on its way up
///
/// While a host folds one piece, the next comes in and the one before goes out.
class Chain {
 public:
  explicit Chain(HostsCall& call)
      : c_(call),
        layout_(call.layout()),
        r_(call.call(), call.group().rank(), call.group().size()),
        item_(c10::elementSize(call.call().dtype)),
        partial_item_(c10::elementSize(partial_dtype(call.call().dtype))),
        piece_(std::max<size_t>(
            kShardAlignment, call.tuning().chain_bytes / partial_item_)),
        // There and back again, a step a host.
        lag_(2 * static_cast<size_t>(layout_.hosts() - 1 - layout_.mine)) {
    const size_t part = r_.bytes() / item_;
    pieces_a_part_ = (part + piece_ - 1) / piece_;
    pieces_ =
        pieces_a_part_ * (r_.scatter() ? static_cast<size_t>(r_.size()) : size_t{1});
    if (c_.leads())
      prepare();
  }

  void run() {
    for (size_t t = 0; t < pieces_ + lag_; ++t) {
      if (t < pieces_)
        fold(t);
      if (t >= lag_)
        deliver(t - lag_);
    }
    if (c_.leads())
      c_.leaders().finish();
  }

 private:
  // ---- which piece is where

  struct PiecePlace {
    size_t input = 0;  // in elements
    size_t output = 0;
    size_t count = 0;
    /// The rank that wants it, or -1 for all.
    int owner = -1;
  };
  PiecePlace place(size_t t) const {
    const size_t part = r_.bytes() / item_;
    const size_t at = t % pieces_a_part_ * piece_;
    const size_t which = t / pieces_a_part_;
    return {
        .input = (r_.scatter() ? which * part : 0) + at,
        .output = at,
        .count = std::min(piece_, part - at),
        .owner = r_.scatter() ? static_cast<int>(which) : r_.root()};
  }
  /// Whether the result of a piece is wanted on this host.
  bool comes_here(const PiecePlace& piece) const {
    return piece.owner < 0 || layout_.host_of(piece.owner) == layout_.mine;
  }
  /// Where a leader has the result of a piece.
  std::byte* result(size_t t, const PiecePlace& piece) const {
    if (piece.owner < 0 || piece.owner == r_.rank())
      return r_.output() + piece.output * item_;
    return results_.data() + t % result_slots() * piece_ * item_;
  }
  size_t result_slots() const { return lag_ + kDepth; }
  std::byte* coming(size_t t) const {
    return coming_.data() + t % kDepth * piece_ * partial_item_;
  }
  std::byte* going(size_t t) const {
    return going_.data() + t % kDepth * piece_ * partial_item_;
  }
  bool first() const { return layout_.mine == 0; }
  bool last() const { return layout_.last(); }

  // ---- down

  void prepare() {
    if (!first())
      coming_ = c_.take(kDepth * piece_ * partial_item_);
    if (!last())
      going_ = c_.take(kDepth * piece_ * partial_item_);
    if (r_.scatter() || r_.root() >= 0)
      results_ = c_.take(result_slots() * piece_ * item_);
    came_.resize(pieces_);
    sent_.resize(pieces_);
    got_.resize(pieces_);
    for (size_t t = 0; t < std::min(kDepth, pieces_); ++t)
      start_coming(t);
  }
  void start_coming(size_t t) {
    if (!first() && t < pieces_)
      came_[t] = c_.leaders().receive(
          layout_.mine - 1, coming(t), place(t).count * partial_item_);
  }

  void fold(size_t t) {
    const PiecePlace piece = place(t);
    FoldStep step{.ranks = last() ? r_.size() : 0};
    Piece out;
    if (c_.leads()) {
      if (!first()) {
        c_.leaders().wait(came_[t]);
        step.before = coming(t);
      }
      if (t >= kDepth)
        c_.leaders().wait(sent_[t - kDepth]);
      out.data = last() ? result(t, piece) : going(t);
    }
    const Piece give{
        const_cast<std::byte*>(r_.input()) + piece.input * item_, piece.count * item_};
    c_.inside(
        {.kind = CollectiveKind::Reduce,
         .op = c_.call().op,
         .dtype = c_.call().dtype,
         .root = 0,
         .count = static_cast<int64_t>(piece.count),
         .give = {&give, 1},
         .take = {&out, 1},
         .fold = &step});
    if (!c_.leads())
      return;
    start_coming(t + kDepth);
    last() ? send_result(t, piece) : send_partial(t, piece);
  }

  void send_partial(size_t t, const PiecePlace& piece) {
    sent_[t] =
        c_.leaders().send(layout_.mine + 1, going(t), piece.count * partial_item_);
    if (comes_here(piece))
      got_[t] = c_.leaders().receive(
          piece.owner < 0 ? layout_.mine + 1 : layout_.hosts() - 1,
          result(t, piece),
          piece.count * item_);
  }

  // ---- back

  void send_result(size_t t, const PiecePlace& piece) {
    const int to = piece.owner < 0 ? layout_.mine - 1 : layout_.host_of(piece.owner);
    if (to != layout_.mine)
      sent_[t] = c_.leaders().send(to, result(t, piece), piece.count * item_);
  }

  void deliver(size_t t) {
    const PiecePlace piece = place(t);
    if (!comes_here(piece))
      return;
    if (c_.leads() && !last()) {
      c_.leaders().wait(got_[t]);
      if (piece.owner < 0 && !first())
        c_.leaders().send(layout_.mine - 1, result(t, piece), piece.count * item_);
    }
    const size_t bytes = piece.count * item_;
    if (piece.owner < 0)
      return c_.spread({r_.output() + piece.output * item_, bytes});
    const int inner = piece.owner - layout_.leader(layout_.mine);
    if (inner == 0)
      return;  // the leader's own, and there already
    PerRank<Piece> give;
    if (c_.leads()) {
      give = PerRank<Piece>(static_cast<size_t>(layout_.ranks_of(layout_.mine)));
      give[static_cast<size_t>(inner)] = {result(t, piece), bytes};
    }
    Piece take;
    if (piece.owner == r_.rank())
      take = {r_.output() + piece.output * item_, bytes};
    c_.hand_out(give, take, bytes);
  }

  HostsCall& c_;
  const HostLayout& layout_;
  ReductionCall r_;
  size_t item_, partial_item_;
  size_t piece_;  // elements
  size_t lag_;
  size_t pieces_a_part_ = 0, pieces_ = 0;
  Buffer coming_, going_, results_;
  std::vector<Wire::Transfer> came_, sent_, got_;
};

}  // namespace

void reduce_by_chain(HostsCall& call) {
  Chain(call).run();
}

}  // namespace trireme::comm
