// A table as it is saved and loaded.
#include <algorithm>
#include <utility>

#include <ATen/Functions.h>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/dist_autograd/sharded_embedding.h"
#include "trireme/dist_autograd/tensor_text.h"
#include "trireme/rpc/future_all.h"

namespace trireme::dist_autograd {
namespace {

constexpr const char* kWeight = "weight";
constexpr const char* kSteps = "steps";
// How many numbers state_dict() moves at a time.
constexpr std::int64_t kPiece = 1 << 20;

}  // namespace

std::vector<std::string> ShardedEmbedding::state_names() const {
  std::vector<std::string> names = dist_autograd::state_names(options_.optimizer.rule);
  names.insert(names.begin(), kWeight);
  return names;
}

at::Tensor ShardedEmbedding::read(
    const std::string& name, std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || first > options_.rows - count)
    throw InvalidArgument(text(
        "[dist_autograd] expected rows of table ",
        options_.name,
        " from 0 to ",
        options_.rows - 1,
        ", got ",
        count,
        " from ",
        first,
        "; ask for less"));
  std::vector<rpc::Future<at::Tensor>> parts;
  for (std::int64_t server = 0; server < spread_.servers; ++server) {
    const auto [begin, length] = spread_.part_of(server, first, count);
    parts.push_back(on(server).async(&EmbeddingShard::read, name, begin, length));
  }
  at::Tensor rows = at::empty({count, options_.dim});
  for (std::int64_t server = 0; server < spread_.servers; ++server) {
    const auto [begin, length] = spread_.part_of(server, first, count);
    rows.index_copy_(
        0,
        spread_.ids_of(server, begin, length) - first,
        std::move(parts[static_cast<std::size_t>(server)]).get());
  }
  return rows;
}

void ShardedEmbedding::check_rows(
    const std::string& name, const at::Tensor& rows) const {
  const std::vector<std::string> names = state_names();
  if (std::find(names.begin(), names.end(), name) == names.end() || !rows.defined() ||
      rows.dim() != 2 || rows.size(1) != options_.dim ||
      rows.scalar_type() != at::kFloat)
    throw InvalidArgument(text(
        "[dist_autograd] expected ",
        list_names(names),
        " of table ",
        options_.name,
        " as float rows of ",
        options_.dim,
        " columns, got ",
        name,
        " as ",
        to_text(rows),
        "; take the state of a table of the same dim and optimizer"));
}

void ShardedEmbedding::write(
    const std::string& name, std::int64_t first, const at::Tensor& rows) {
  check_rows(name, rows);
  if (first < 0 || rows.size(0) > options_.rows - first)
    throw InvalidArgument(text(
        "[dist_autograd] expected rows of table ",
        options_.name,
        " from 0 to ",
        options_.rows - 1,
        ", got ",
        rows.size(0),
        " from ",
        first,
        "; write less"));
  std::vector<rpc::Future<void>> done;
  for (std::int64_t server = 0; server < spread_.servers; ++server) {
    const auto [begin, length] = spread_.part_of(server, first, rows.size(0));
    done.push_back(on(server).async(
        &EmbeddingShard::write,
        name,
        begin,
        rows.detach().index_select(0, spread_.ids_of(server, begin, length) - first)));
  }
  rpc::all(std::move(done)).get();
}

std::int64_t ShardedEmbedding::steps() const {
  return on(0).call(&EmbeddingShard::steps);
}

void ShardedEmbedding::set_steps(std::int64_t steps) {
  for (std::int64_t server = 0; server < spread_.servers; ++server)
    on(server).call(&EmbeddingShard::set_steps, steps);
}

std::map<std::string, at::Tensor> ShardedEmbedding::state_dict() const {
  std::map<std::string, at::Tensor> state;
  const std::int64_t piece = std::max<std::int64_t>(1, kPiece / options_.dim);
  for (const std::string& name : state_names()) {
    std::vector<at::Tensor> pieces;
    for (std::int64_t first = 0; first < options_.rows; first += piece)
      pieces.push_back(read(name, first, std::min(piece, options_.rows - first)));
    state[name] = at::cat(pieces);
  }
  state[kSteps] = at::full({}, steps(), at::kLong);
  return state;
}

void ShardedEmbedding::check_state(
    const std::map<std::string, at::Tensor>& state) const {
  const std::vector<std::string> names = state_names();
  const auto fits = [&](const std::string& name) {
    const auto found = state.find(name);
    return found != state.end() && found->second.defined() &&
           (name == kSteps ? found->second.numel() == 1
                           : found->second.sizes() ==
                                     at::IntArrayRef{options_.rows, options_.dim} &&
                                 found->second.scalar_type() == at::kFloat);
  };
  std::string got;
  for (const auto& [name, tensor] : state)
    got += text(got.empty() ? "" : ", ", name, " ", to_text(tensor));
  if (state.size() != names.size() + 1 || !fits(kSteps) ||
      !std::all_of(names.begin(), names.end(), fits))
    throw InvalidArgument(text(
        "[dist_autograd] expected ",
        list_names(names),
        " of [",
        options_.rows,
        ", ",
        options_.dim,
        "] floats, and ",
        kSteps,
        ", as the state of table ",
        options_.name,
        ", got ",
        got,
        "; load what a table of the same rows, dim and optimizer has saved"));
}

void ShardedEmbedding::load_state_dict(const std::map<std::string, at::Tensor>& state) {
  check_state(state);
  const std::int64_t piece = std::max<std::int64_t>(1, kPiece / options_.dim);
  for (const std::string& name : state_names())
    for (std::int64_t first = 0; first < options_.rows; first += piece)
      write(
          name,
          first,
          state.at(name).narrow(0, first, std::min(piece, options_.rows - first)));
  set_steps(state.at(kSteps).item<std::int64_t>());
}

}  // namespace trireme::dist_autograd
