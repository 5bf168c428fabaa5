#include "trireme/dist_autograd/sharded_embedding.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/dist_autograd/tensor_text.h"

namespace trireme::dist_autograd {
namespace {

at::Tensor cat_or_empty(const std::vector<at::Tensor>& parts, at::Tensor empty) {
  return parts.empty() ? empty : parts.size() == 1 ? parts.front() : at::cat(parts);
}

// Equal bags, as torch takes them.
at::Tensor even_offsets(const at::Tensor& ids) {
  if (ids.dim() != 2)
    throw InvalidArgument(text(
        "[dist_autograd] expected ids of two dims without offsets, a row a bag, got ",
        to_text(ids),
        "; give offsets"));
  const std::int64_t length = std::max<std::int64_t>(ids.size(1), 1);
  return ids.size(1) == 0 ? at::zeros({ids.size(0)}, at::kLong)
                          : at::arange(0, ids.numel(), length, at::kLong);
}

void check_offsets(const at::Tensor& ids, const at::Tensor& offsets) {
  const bool whole = offsets.dim() == 1 && (offsets.scalar_type() == at::kLong ||
                                            offsets.scalar_type() == at::kInt);
  bool fits = whole && ids.dim() == 1;
  if (fits && offsets.numel() > 0)
    fits = offsets[0].item<std::int64_t>() == 0 &&
           at::diff(offsets).ge(0).all().item<bool>() &&
           offsets[-1].item<std::int64_t>() <= ids.numel();
  if (!fits)
    throw InvalidArgument(text(
        "[dist_autograd] expected a list of ids, and offsets that begin with 0, do not "
        "fall, and end within the list, got ids ",
        to_text(ids),
        " and offsets ",
        to_text(offsets),
        "; say where each bag begins"));
}

}  // namespace

ShardedEmbedding::ShardedEmbedding(
    const rpc::Agent& agent,
    const std::vector<std::string>& servers,
    const ShardedEmbeddingOptions& options)
    : options_(options),
      spread_(
          {.rows = options.rows,
           .servers = static_cast<std::int64_t>(servers.size()),
           .kind = options.spread}),
      contexts_(contexts_of(agent)) {
  std::vector<std::string> sorted = servers;
  std::sort(sorted.begin(), sorted.end());
  if (servers.empty() ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw InvalidArgument(text(
        "[dist_autograd] expected the names of one or more different workers for "
        "table ",
        options.name,
        ", got ",
        list_names(servers),
        "; name each server once"));
  const std::uint64_t ordinal = contexts_->next_table(options.name);
  for (std::int64_t server = 0; server < spread_.servers; ++server)
    shards_.push_back(
        agent
            .to(servers[static_cast<std::size_t>(server)], {.timeout = options.timeout})
            .remote(
                kMakeShard,
                ShardPlan{
                    .name = options.name,
                    .ordinal = ordinal,
                    .rows = options.rows,
                    .dim = options.dim,
                    .server = server,
                    .servers = spread_.servers,
                    .spread = options.spread,
                    .seed = options.seed,
                    .deviation = options.deviation,
                    .optimizer = options.optimizer}));
  for (const Shard& shard : shards_)
    shard.made().get();
}

ShardedEmbedding::Shard::Methods ShardedEmbedding::on(std::int64_t server) const {
  return shards_[static_cast<std::size_t>(server)].with({.timeout = options_.timeout});
}

// As a list of int64.
at::Tensor ShardedEmbedding::flat(const at::Tensor& ids) const {
  if (!ids.defined() ||
      (ids.scalar_type() != at::kLong && ids.scalar_type() != at::kInt))
    throw InvalidArgument(text(
        "[dist_autograd] expected ids of int64 or int32 for table ",
        options_.name,
        ", got ",
        to_text(ids),
        "; convert them by to(at::kLong)"));
  at::Tensor list = ids.reshape({-1}).to(at::kCPU, at::kLong);
  if (list.numel() == 0)
    return list;
  const auto [least, most] = at::aminmax(list);
  const auto low = least.item<std::int64_t>(), high = most.item<std::int64_t>();
  if (low < 0 || high >= options_.rows)
    throw InvalidArgument(text(
        "[dist_autograd] expected ids of table ",
        options_.name,
        " from 0 to ",
        options_.rows - 1,
        ", got ",
        low < 0 ? low : high,
        "; correct the ids, or make a table of more rows"));
  return list;
}

at::Tensor ShardedEmbedding::lookup(const at::Tensor& ids) {
  return lookup(std::vector<at::Tensor>{ids}).front();
}

std::vector<at::Tensor> ShardedEmbedding::lookup(const std::vector<at::Tensor>& ids) {
  if (ids.empty())
    return {};
  std::vector<at::Tensor> lists;
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& some : ids) {
    lists.push_back(flat(some));
    lengths.push_back(lists.back().numel());
  }
  const Found found = find(cat_or_empty(lists, {}));
  const auto parts = at::embedding(found.rows, found.index).split_with_sizes(lengths);
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::vector<std::int64_t> sizes = ids[i].sizes().vec();
    sizes.push_back(options_.dim);
    results.push_back(parts[i].view(sizes));
  }
  return results;
}

at::Tensor ShardedEmbedding::lookup_bags(
    const at::Tensor& ids, Bag bag, const at::Tensor& offsets) {
  const at::Tensor list = flat(ids);
  const at::Tensor begins = offsets.defined() ? offsets : even_offsets(ids);
  if (offsets.defined())
    check_offsets(ids, offsets);
  const Found found = find(list);
  return std::get<0>(at::embedding_bag(
      found.rows,
      found.index,
      begins.to(at::kCPU, at::kLong),
      /*scale_grad_by_freq=*/false,
      bag == Bag::Sum ? 0 : 1));
}

ShardedEmbedding::Found ShardedEmbedding::find(const at::Tensor& ids) {
  const auto [wanted, inverse] = [&] {
    auto unique = at::_unique2(ids, /*sorted=*/true, /*return_inverse=*/true);
    return std::pair(std::get<0>(unique), std::get<1>(unique));
  }();
  const auto context = c10::GradMode::is_enabled() ? current_context() : nullptr;
  std::vector<Fetch> fetches = take_ahead(context);
  at::Tensor missing = wanted;
  for (const Fetch& fetch : fetches)
    missing = missing.masked_select(at::isin(missing, fetch.ids).logical_not());
  if (missing.numel() > 0)
    fetches.push_back(fetch(missing));
  std::vector<at::Tensor> rows, there;
  for (Fetch& fetch : fetches) {
    there.push_back(fetch.ids);
    for (auto& part : fetch.parts)
      rows.push_back(std::move(part).get());
  }
  const auto [sorted, order] = at::sort(cat_or_empty(there, wanted));
  const at::Tensor places = order.index_select(0, at::searchsorted(sorted, wanted));
  return {
      .rows = cat_or_empty(rows, at::zeros({1, options_.dim})),
      .index = places.index_select(0, inverse)};
}

// Of different ids; the calls go to all servers at once.
ShardedEmbedding::Fetch ShardedEmbedding::fetch(const at::Tensor& ids) const {
  const at::Tensor servers = spread_.server_of(ids);
  Fetch fetch;
  std::vector<at::Tensor> order;
  for (std::int64_t server = 0; server < spread_.servers; ++server) {
    const at::Tensor own = ids.masked_select(servers == server);
    if (own.numel() == 0)
      continue;
    order.push_back(own);
    fetch.parts.push_back(
        on(server).async(&EmbeddingShard::lookup, spread_.number_of(own)));
  }
  fetch.ids = cat_or_empty(order, ids);
  return fetch;
}

}  // namespace trireme::dist_autograd
