#include "trireme/comm/collectives.h"

#include <algorithm>
#include <numeric>

#include "trireme/comm/flat.h"
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
        " elements"));
}

void check_list(
    const Group& group,
    std::string_view call,
    std::string_view what,
    const std::vector<at::Tensor>& list) {
  if (static_cast<int>(list.size()) != group.size())
    throw InvalidArgument(text(
        "[comm] ",
        call,
        ": expected ",
        group.size(),
        " ",
        what,
        ", one a rank, got ",
        list.size()));
}

std::vector<Piece> parts_of(const Flat& flat, int parts) {
  std::vector<Piece> pieces;
  for (int k = 0; k < parts; ++k)
    pieces.push_back(flat.part(k, parts));
  return pieces;
}

std::vector<Piece> pieces_of(const std::vector<Flat>& flats) {
  std::vector<Piece> pieces;
  for (const Flat& flat : flats)
    pieces.push_back(flat.piece());
  return pieces;
}

// This rank's own entry of a root's list; nothing on the other ranks.
Piece own_piece(const Group& group, const std::vector<Flat>& flats) {
  return flats.empty() ? Piece{} : flats[static_cast<size_t>(group.rank())].piece();
}

std::vector<Flat> outputs_of(
    const Group& group, std::string_view call, const std::vector<at::Tensor>& tensors) {
  std::vector<Flat> flats;
  for (const at::Tensor& tensor : tensors)
    flats.push_back(Flat::output(group, call, tensor));
  return flats;
}

// The list that a root passes: one tensor a rank, each like the other side's single
// one.
void check_root_list(
    const Group& group,
    std::string_view call,
    std::string_view what,
    const std::vector<Flat>& flats,
    const Flat& like) {
  for (const Flat& flat : flats) {
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
      [=, op = options.op, flat = std::move(flat)](const Deadline& deadline) {
        const Piece piece = flat.piece();
        const bool wanted = root < 0 || root == engine->rank();
        engine->run(
            {.kind = kind,
             .op = op,
             .dtype = flat.dtype(),
             .root = root,
             .count = flat.count(),
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
  Engine* engine = &group.engine();
  return group.in_order(
      order_of(options), [=, op = options.op](const Deadline& deadline) {
        const Piece give = from.piece();
        const Piece take = to.piece();
        engine->run(
            {.kind = CollectiveKind::ReduceScatter,
             .op = op,
             .dtype = to.dtype(),
             .count = to.count(),
             .give = {&give, 1},
             .take = {&take, 1}},
            deadline);
        to.finish();
      });
}

Work broadcast(
    const Group& group, at::Tensor tensor, int root, const CallOptions& options) {
  check_root(group, "broadcast", root);
  Flat flat = Flat::output(group, "broadcast", tensor);
  Engine* engine = &group.engine();
  return group.in_order(
      order_of(options), [=, flat = std::move(flat)](const Deadline& deadline) {
        const bool gives = engine->rank() == root;
        const Piece piece = flat.piece();
        std::vector<Piece> take(gives ? 0 : static_cast<size_t>(engine->size()));
        if (!gives)
          take[static_cast<size_t>(root)] = piece;
        engine->run(
            {.kind = CollectiveKind::Broadcast,
             .dtype = flat.dtype(),
             .root = root,
             .count = flat.count(),
             .give = {&piece, gives ? size_t{1} : 0},
             .take = take},
            deadline);
        if (!gives)
          flat.finish();
      });
}

Work all_gather(
    const Group& group,
    at::Tensor output,
    const at::Tensor& input,
    const CallOptions& options) {
  Flat to = Flat::output(group, "all_gather", output);
  Flat from = Flat::input(group, "all_gather", input);
  check_parts(group, "all_gather", to, from);
  check_no_overlap(
      "all_gather",
      {from.piece()},
      parts_of(to, group.size()),
      to.part(group.rank(), group.size()));
  Engine* engine = &group.engine();
  return group.in_order(order_of(options), [=](const Deadline& deadline) {
    const Piece give = from.piece();
    engine->run(
        {.kind = CollectiveKind::AllGather,
         .dtype = from.dtype(),
         .count = from.count(),
         .give = {&give, 1},
         .take = parts_of(to, engine->size())},
        deadline);
    to.finish();
  });
}

Work all_to_all(
    const Group& group,
    at::Tensor output,
    const at::Tensor& input,
    const CallOptions& options) {
  Flat to = Flat::output(group, "all_to_all", output);
  Flat from = Flat::input(group, "all_to_all", input);
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
  Engine* engine = &group.engine();
  return group.in_order(order_of(options), [=](const Deadline& deadline) {
    engine->run(
        {.kind = CollectiveKind::AllToAll,
         .dtype = from.dtype(),
         .count = from.count() / engine->size(),
         .give = parts_of(from, engine->size()),
         .take = parts_of(to, engine->size())},
        deadline);
    to.finish();
  });
}

Work gather(
    const Group& group,
    std::vector<at::Tensor> outputs,
    const at::Tensor& input,
    int root,
    const CallOptions& options) {
  check_root(group, "gather", root);
  Flat from = Flat::input(group, "gather", input);
  const bool takes = group.rank() == root;
  if (takes)
    check_list(group, "gather", "outputs at the root", outputs);
  std::vector<Flat> to =
      takes ? outputs_of(group, "gather", outputs) : std::vector<Flat>();
  check_root_list(group, "gather", "outputs", to, from);
  check_no_overlap("gather", {from.piece()}, pieces_of(to), own_piece(group, to));
  Engine* engine = &group.engine();
  return group.in_order(order_of(options), [=](const Deadline& deadline) {
    const Piece give = from.piece();
    engine->run(
        {.kind = CollectiveKind::Gather,
         .dtype = from.dtype(),
         .root = root,
         .count = from.count(),
         .give = {&give, 1},
         .take = pieces_of(to)},
        deadline);
    for (const Flat& flat : to)
      flat.finish();
  });
}

Work scatter(
    const Group& group,
    at::Tensor output,
    const std::vector<at::Tensor>& inputs,
    int root,
    const CallOptions& options) {
  check_root(group, "scatter", root);
  Flat to = Flat::output(group, "scatter", output);
  std::vector<Flat> from;
  if (group.rank() == root) {
    check_list(group, "scatter", "inputs at the root", inputs);
    for (const at::Tensor& tensor : inputs)
      from.push_back(Flat::input(group, "scatter", tensor));
  }
  check_root_list(group, "scatter", "inputs", from, to);
  check_no_overlap("scatter", pieces_of(from), {to.piece()}, own_piece(group, from));
  Engine* engine = &group.engine();
  return group.in_order(order_of(options), [=](const Deadline& deadline) {
    std::vector<Piece> take(static_cast<size_t>(engine->size()));
    take[static_cast<size_t>(root)] = to.piece();
    engine->run(
        {.kind = CollectiveKind::Scatter,
         .dtype = to.dtype(),
         .root = root,
         .count = to.count(),
         .give = pieces_of(from),
         .take = take},
        deadline);
    to.finish();
  });
}

Work barrier(const Group& group, const CallOptions& options) {
  Engine* engine = &group.engine();
  return group.in_order(order_of(options), [engine](const Deadline& deadline) {
    engine->run({.kind = CollectiveKind::Barrier}, deadline);
  });
}

}  // namespace trireme::comm
