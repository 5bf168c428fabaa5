#include "trireme/comm/collectives.h"

#include "trireme/comm/flat.h"
#include "trireme/comm/per_rank.h"
#include "trireme/comm/reduce_kernel.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

template <class Options>
Group::CallOrder order_of(const Options& options) {
  return {.async = options.async, .timeout = options.timeout};
}

// A tensor of size() parts against one part.
void check_parts(
    const Group& group, std::string_view call, const Flat& whole, const Flat& part) {
  check_same_dtype(call, whole, part);
  if (whole.count() != part.count() * group.size())
    throw InvalidArgument(text(
        "[comm] ",
        call,
        ": expected ",
        group.size(),
        " parts of ",
        part.count(),
        " elements, got ",
        whole.count(),
        " elements; resize one of the two"));
}

PerRank<Piece> parts_of(const Flat& flat, int parts) {
  PerRank<Piece> pieces;
  for (int k = 0; k < parts; ++k)
    pieces.push_back(flat.part(k, parts));
  return pieces;
}

PerRank<Piece> pieces_of(const PerRank<Flat>& flats) {
  PerRank<Piece> pieces;
  for (const Flat& flat : flats)
    pieces.push_back(flat.piece());
  return pieces;
}

// One piece that comes from `rank`, and nothing from the others.
PerRank<Piece> only_from(const Group& group, int rank, const Piece& piece) {
  PerRank<Piece> pieces(group.size());
  pieces[rank] = piece;
  return pieces;
}

// This rank's own entry of a root's list; nothing on the other ranks.
Piece own_piece(const Group& group, const PerRank<Piece>& list) {
  return list.empty() ? Piece{} : list[group.rank()];
}

// The list that a root passes: one tensor a rank, each like the other side's single
// one. Nothing on the other ranks.
PerRank<Flat> root_list(
    const Group& group,
    std::string_view call,
    int root,
    std::string_view what,
    const std::vector<at::Tensor>& list,
    decltype(Flat::input)* make,
    const Flat& like) {
  PerRank<Flat> flats;
  if (group.rank() != root)
    return flats;
  if (static_cast<int>(list.size()) != group.size())
    throw InvalidArgument(text(
        "[comm] ",
        call,
        ": expected ",
        group.size(),
        " ",
        what,
        " at the root, one a rank, got ",
        list.size(),
        "; give one for each"));
  for (const at::Tensor& tensor : list) {
    const Flat& flat = flats.emplace_back(make(group, call, tensor));
    check_same_dtype(call, flat, like);
    if (flat.count() != like.count())
      throw InvalidArgument(text(
          "[comm] ",
          call,
          ": expected ",
          what,
          " of ",
          like.count(),
          " elements each, got one of ",
          flat.count(),
          "; pad them, or use all_to_all for ",
          group.size(),
          " different sizes"));
  }
  return flats;
}

// What a call gives and takes, and the tensors in which that lies.
struct CallData {
  PerRank<Flat> from;
  PerRank<Piece> give;
  PerRank<Flat> to;
  PerRank<Piece> take;
};

// Carries out a call, which comes without its pieces, and writes the outputs back.
template <class Options>
Work carry_out(
    const Group& group, const Options& options, Collective call, CallData data) {
  Engine* engine = &group.engine();
  return group.in_order(
      order_of(options),
      [engine, call, data = std::move(data)](const Deadline& deadline) {
        Collective whole = call;
        whole.give = data.give;
        whole.take = data.take;
        engine->run(whole, deadline);
        for (const Flat& flat : data.to)
          flat.finish();
      });
}

// In place at every rank (root < 0) or at one.
Work reduce_in_place(
    const Group& group,
    CollectiveKind kind,
    const at::Tensor& tensor,
    int root,
    const ReduceOptions& options) {
  Flat flat = Flat::output(group, to_string(kind), tensor);
  if (options.op == ReduceOp::Sum || options.op == ReduceOp::Mean)
    flat.view_as_real();
  reduce_kernel(options.op, flat.dtype());  // refuses before anybody waits for us
  Engine* engine = &group.engine();
  return group.in_order(
      order_of(options),
      [=, op = options.op, order = group.options().order, flat = std::move(flat)](
          const Deadline& deadline) {
        const Piece piece = flat.piece();
        const bool wanted = root < 0 || root == engine->rank();
        engine->run(
            {.kind = kind,
             .op = op,
             .dtype = flat.dtype(),
             .root = root,
             .count = flat.count(),
             .order = order,
             .give = {&piece, 1},
             .take = {&piece, wanted ? size_t{1} : 0}},
            deadline);
        if (wanted)
          flat.finish();
      });
}

}  // namespace

Work all_reduce(const Group& group, at::Tensor tensor, const ReduceOptions& options) {
  return reduce_in_place(group, CollectiveKind::AllReduce, tensor, -1, options);
}

Work reduce(
    const Group& group, at::Tensor tensor, int root, const ReduceOptions& options) {
  check_root(group, "reduce", root);
  return reduce_in_place(group, CollectiveKind::Reduce, tensor, root, options);
}

Work reduce_scatter(
    const Group& group,
    at::Tensor output,
    const at::Tensor& input,
    const ReduceOptions& options) {
  Flat to = Flat::output(group, "reduce_scatter", output);
  Flat from = Flat::input(group, "reduce_scatter", input);
  check_parts(group, "reduce_scatter", from, to);
  check_no_overlap(
      "reduce_scatter",
      parts_of(from, group.size()),
      {to.piece()},
      from.part(group.rank(), group.size()));
  if (options.op == ReduceOp::Sum || options.op == ReduceOp::Mean) {
    to.view_as_real();
    from.view_as_real();
  }
  reduce_kernel(options.op, to.dtype());
  return carry_out(
      group,
      options,
      {.kind = CollectiveKind::ReduceScatter,
       .op = options.op,
       .dtype = to.dtype(),
       .count = to.count(),
       .order = group.options().order},
      {.from = {from}, .give = {from.piece()}, .to = {to}, .take = {to.piece()}});
}

Work broadcast(
    const Group& group, at::Tensor tensor, int root, const CallOptions& options) {
  check_root(group, "broadcast", root);
  const Flat flat = Flat::output(group, "broadcast", tensor);
  CallData data;
  if (group.rank() == root)
    data = {.from = {flat}, .give = {flat.piece()}};
  else
    data = {.to = {flat}, .take = only_from(group, root, flat.piece())};
  return carry_out(
      group,
      options,
      {.kind = CollectiveKind::Broadcast,
       .dtype = flat.dtype(),
       .root = root,
       .count = flat.count()},
      std::move(data));
}

Work all_gather(
    const Group& group,
    at::Tensor output,
    const at::Tensor& input,
    const CallOptions& options) {
  const Flat to = Flat::output(group, "all_gather", output);
  const Flat from = Flat::input(group, "all_gather", input);
  check_parts(group, "all_gather", to, from);
  CallData data{
      .from = {from},
      .give = {from.piece()},
      .to = {to},
      .take = parts_of(to, group.size())};
  check_no_overlap("all_gather", data.give, data.take, own_piece(group, data.take));
  return carry_out(
      group,
      options,
      {.kind = CollectiveKind::AllGather, .dtype = from.dtype(), .count = from.count()},
      std::move(data));
}

Work all_to_all(
    const Group& group,
    at::Tensor output,
    const at::Tensor& input,
    const CallOptions& options) {
  const Flat to = Flat::output(group, "all_to_all", output);
  const Flat from = Flat::input(group, "all_to_all", input);
  check_same_dtype("all_to_all", from, to);
  if (from.count() != to.count() || from.count() % group.size() != 0)
    throw InvalidArgument(text(
        "[comm] all_to_all: expected input and output of ",
        group.size(),
        " equal parts, got ",
        from.count(),
        " and ",
        to.count(),
        " elements; pass lists of tensors for unequal parts"));
  check_no_overlap("all_to_all", {from.piece()}, {to.piece()});
  return carry_out(
      group,
      options,
      {.kind = CollectiveKind::AllToAll,
       .dtype = from.dtype(),
       .count = from.count() / group.size()},
      {.from = {from},
       .give = parts_of(from, group.size()),
       .to = {to},
       .take = parts_of(to, group.size())});
}

Work gather(
    const Group& group,
    std::vector<at::Tensor> outputs,
    const at::Tensor& input,
    int root,
    const CallOptions& options) {
  check_root(group, "gather", root);
  const Flat from = Flat::input(group, "gather", input);
  CallData data{.from = {from}, .give = {from.piece()}};
  data.to = root_list(group, "gather", root, "outputs", outputs, Flat::output, from);
  data.take = pieces_of(data.to);
  check_no_overlap("gather", data.give, data.take, own_piece(group, data.take));
  return carry_out(
      group,
      options,
      {.kind = CollectiveKind::Gather,
       .dtype = from.dtype(),
       .root = root,
       .count = from.count()},
      std::move(data));
}

Work scatter(
    const Group& group,
    at::Tensor output,
    const std::vector<at::Tensor>& inputs,
    int root,
    const CallOptions& options) {
  check_root(group, "scatter", root);
  const Flat to = Flat::output(group, "scatter", output);
  CallData data{.to = {to}, .take = only_from(group, root, to.piece())};
  data.from = root_list(group, "scatter", root, "inputs", inputs, Flat::input, to);
  data.give = pieces_of(data.from);
  check_no_overlap("scatter", data.give, data.take, own_piece(group, data.give));
  return carry_out(
      group,
      options,
      {.kind = CollectiveKind::Scatter,
       .dtype = to.dtype(),
       .root = root,
       .count = to.count()},
      std::move(data));
}

Work barrier(const Group& group, const CallOptions& options) {
  Engine* engine = &group.engine();
  return group.in_order(order_of(options), [engine](const Deadline& deadline) {
    engine->run({.kind = CollectiveKind::Barrier}, deadline);
  });
}

}  // namespace trireme::comm
