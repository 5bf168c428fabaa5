// The collectives whose sizes differ between ranks: the ranks first tell one another.
#include <algorithm>

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/flat.h"
#include "trireme/comm/per_rank.h"
#include "trireme/comm/share_rows.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

constexpr size_t kMostUnevenDims = 24;

// Tells every rank what comes to it, and finds the longest piece of all. A mistake of
// one rank is the same error on all.
int64_t agree_on_counts(
    Engine& engine,
    const PerRank<Flat>& from,
    const PerRank<Flat>& to,
    const Deadline& deadline) {
  const size_t ranks = from.size();
  std::vector<int64_t> going(ranks), coming(ranks);
  PerRank<Piece> give(ranks), take(ranks);
  for (size_t k = 0; k < ranks; ++k) {
    going[k] = from[k].count();
    give[k] = {reinterpret_cast<std::byte*>(&going[k]), sizeof(int64_t)};
    take[k] = {reinterpret_cast<std::byte*>(&coming[k]), sizeof(int64_t)};
  }
  engine.run(
      {.kind = CollectiveKind::AllToAllUneven,
       .dtype = c10::ScalarType::Long,
       .count = 1,
       .give = give,
       .take = take},
      deadline);
  // A row: the longest piece, and the first wrong one: from whom, how long, as
  // expected.
  std::vector<int64_t> row = {*std::max_element(going.begin(), going.end()), -1, 0, 0};
  for (size_t k = 0; k < ranks && row[1] < 0; ++k)
    if (coming[k] != to[k].count())
      row = {row[0], static_cast<int64_t>(k), coming[k], to[k].count()};
  const auto rows = share_rows(engine, CollectiveKind::AllGatherUneven, row, deadline);
  int64_t longest = 0;
  for (size_t k = 0; k < ranks; ++k) {
    const int64_t* theirs = rows.data() + k * row.size();
    longest = std::max(longest, theirs[0]);
    if (theirs[1] >= 0)
      throw InvalidArgument(text(
          "[comm] all_to_all: expected ",
          theirs[3],
          " elements from rank ",
          theirs[1],
          " at rank ",
          k,
          ", got ",
          theirs[2],
          "; make that rank's input and this rank's output agree"));
  }
  return longest;
}

}  // namespace

Work all_gather_uneven(
    const Group& group,
    std::vector<at::Tensor>& outputs,
    const at::Tensor& input,
    const CallOptions& options) {
  Flat from = Flat::input(group, "all_gather_uneven", input);
  if (input.dim() > static_cast<int64_t>(kMostUnevenDims))
    throw InvalidArgument(text(
        "[comm] all_gather_uneven: expected at most ",
        kMostUnevenDims,
        " dims, got ",
        input.dim(),
        "; flatten some of them"));
  Engine* engine = &group.engine();
  const auto body = [=, result = &outputs](const Deadline& deadline) {
    // A row: the number of dims, then their sizes.
    std::vector<int64_t> row(1 + kMostUnevenDims, 0);
    row[0] = input.dim();
    std::copy(input.sizes().begin(), input.sizes().end(), row.begin() + 1);
    const auto rows =
        share_rows(*engine, CollectiveKind::AllGatherUneven, row, deadline);
    std::vector<at::Tensor> tensors;
    PerRank<Piece> take;
    int64_t longest = 0;
    for (size_t k = 0; k < static_cast<size_t>(engine->size()); ++k) {
      const int64_t* theirs = rows.data() + k * row.size();
      const at::IntArrayRef sizes(theirs + 1, static_cast<size_t>(theirs[0]));
      tensors.push_back(
          at::empty(sizes, at::TensorOptions().dtype(input.scalar_type())));
      take.push_back(
          {static_cast<std::byte*>(tensors.back().data_ptr()),
           tensors.back().nbytes()});
      longest = std::max(longest, tensors.back().numel());
    }
    const Piece give = from.piece();
    engine->run(
        {.kind = CollectiveKind::AllGatherUneven,
         .dtype = from.dtype(),
         .count = longest,
         .give = {&give, 1},
         .take = take},
        deadline);
    *result = std::move(tensors);
  };
  return group.in_order({.async = options.async, .timeout = options.timeout}, body);
}

Work all_to_all(
    const Group& group,
    std::vector<at::Tensor> outputs,
    const std::vector<at::Tensor>& inputs,
    const CallOptions& options) {
  const auto ranks = static_cast<size_t>(group.size());
  if (inputs.size() != ranks || outputs.size() != ranks)
    throw InvalidArgument(text(
        "[comm] all_to_all: expected ",
        ranks,
        " inputs and outputs, one a rank, got ",
        inputs.size(),
        " and ",
        outputs.size(),
        "; give one for each"));
  PerRank<Flat> from, to;
  for (size_t k = 0; k < ranks; ++k) {
    from.push_back(Flat::input(group, "all_to_all", inputs[k]));
    to.push_back(Flat::output(group, "all_to_all", outputs[k]));
    check_same_dtype("all_to_all", from[0], from[k]);
    check_same_dtype("all_to_all", from[0], to[k]);
  }
  PerRank<Piece> give, take;
  for (size_t k = 0; k < ranks; ++k) {
    give.push_back(from[k].piece());
    take.push_back(to[k].piece());
  }
  check_no_overlap("all_to_all", give, take);
  Engine* engine = &group.engine();
  const auto body = [=](const Deadline& deadline) {
    const int64_t longest = agree_on_counts(*engine, from, to, deadline);
    engine->run(
        {.kind = CollectiveKind::AllToAllUneven,
         .dtype = from[0].dtype(),
         .count = longest,
         .give = give,
         .take = take},
        deadline);
    for (const Flat& flat : to)
      flat.finish();
  };
  return group.in_order({.async = options.async, .timeout = options.timeout}, body);
}

}  // namespace trireme::comm
