// How a table's rows are changed, and fetched ahead of the next lookup.
#include <algorithm>
#include <utility>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/dist_autograd/sharded_embedding.h"
#include "trireme/rpc/future_all.h"

namespace trireme::dist_autograd {

// What was fetched for this context, and is on its way.
std::vector<ShardedEmbedding::Fetch> ShardedEmbedding::take_ahead(
    const std::shared_ptr<ContextState>& context) {
  std::vector<Fetch> fetches;
  if (!context)
    return fetches;
  std::vector<Ahead> done;  // contexts may end with them, after the lock
  const std::lock_guard lock(mutex_);
  std::erase_if(ahead_, [&](Ahead& ahead) {
    const bool own = ahead.next->state() == context;
    if (!own && !ahead.next->state()->ended())
      return false;
    if (own && !ahead.after)
      fetches.push_back(std::move(ahead.fetch));
    done.push_back(std::move(ahead));
    return true;
  });
  std::erase_if(unstepped_, [&](const auto& place) {
    const auto other = place.lock();
    return !other || other == context || other->ended();
  });
  unstepped_.push_back(context);
  return fetches;
}

bool ShardedEmbedding::is_unstepped(
    const std::shared_ptr<ContextState>& context) const {
  return std::any_of(unstepped_.begin(), unstepped_.end(), [&](const auto& place) {
    return place.lock() == context;
  });
}

void ShardedEmbedding::prefetch(const at::Tensor& ids, Prefetch when) {
  Ahead ahead{
      .next = next_context(contexts_),
      .after = when == Prefetch::AtOnce ? nullptr : current_context(),
      .fetch = {.ids = std::get<0>(at::_unique2(flat(ids))), .parts = {}}};
  const std::lock_guard lock(mutex_);
  if (ahead.after && !is_unstepped(ahead.after))
    ahead.after = nullptr;
  if (!ahead.after)
    send(ahead);
  ahead_.push_back(std::move(ahead));
}

void ShardedEmbedding::send(Ahead& ahead) const {
  const ContextScope scope(ahead.next->state());
  const c10::AutoGradMode grad_mode(true);
  ahead.fetch = fetch(ahead.fetch.ids);
}

void ShardedEmbedding::step(const ContextView& context, const RowStep& how) {
  std::vector<rpc::Future<void>> done;
  {
    const ContextScope scope(context.state());
    const c10::AutoGradMode grad_mode(true);
    for (std::int64_t server = 0; server < spread_.servers; ++server)
      done.push_back(on(server).async(&EmbeddingShard::step, how));
  }
  rpc::all(std::move(done)).get();
  const std::lock_guard lock(mutex_);
  std::erase_if(
      unstepped_, [&](const auto& place) { return place.lock() == context.state(); });
  for (Ahead& ahead : ahead_)
    if (ahead.after == context.state()) {
      ahead.after = nullptr;
      send(ahead);
    }
}

}  // namespace trireme::dist_autograd
