#include "trireme/dist_autograd/routes.h"

namespace trireme::dist_autograd {
namespace {

constexpr std::uint64_t kMostOfAWorker = 4 * Routes::kMostOwn;

}  // namespace

void Routes::learn(const RouteId& id, Route route) {
  const std::lock_guard lock(mutex_);
  learnt_.insert_or_assign(id, std::move(route));
  if (id.number > kMostOfAWorker)
    learnt_.erase(
        learnt_.lower_bound({id.root, 0}),
        learnt_.upper_bound({id.root, id.number - kMostOfAWorker}));
}

std::optional<Route> Routes::find(const RouteId& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = learnt_.find(id);
  return found == learnt_.end() ? std::nullopt : std::optional(found->second);
}

std::uint64_t Routes::next() {
  const std::lock_guard lock(mutex_);
  return ++last_;
}

std::uint64_t Routes::number_of(const Route& beginning) const {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(beginning);
  return found == own_.end() ? 0 : found->second;
}

// The others forget by number, so old ones go here before they do there.
void Routes::keep(Route beginning, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  own_.insert_or_assign(std::move(beginning), number);
  std::erase_if(own_, [&](const auto& one) { return one.second + kMostOwn <= last_; });
}

void Routes::drop(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::erase_if(own_, [&](const auto& one) { return one.second == number; });
}

}  // namespace trireme::dist_autograd
