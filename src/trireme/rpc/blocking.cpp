#include "trireme/rpc/blocking.h"

#include <algorithm>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/rpc/future_state.h"
#include "trireme/rpc/word_wait.h"

namespace trireme::rpc {
namespace {

using BlockingHooks = std::vector<std::weak_ptr<BlockingHook>>;

BlockingHooks& blocking_hooks() {
  thread_local BlockingHooks hooks;
  return hooks;
}

// Whether a MustNotWait lives on this thread.
thread_local bool must_not_wait = false;

bool same_hook(
    const std::weak_ptr<BlockingHook>& one,
    const std::shared_ptr<BlockingHook>& other) {
  return !one.owner_before(other) && !other.owner_before(one);
}

}  // namespace

void add_blocking_hook(const std::shared_ptr<BlockingHook>& hook) {
  BlockingHooks& hooks = blocking_hooks();
  for (const auto& known : hooks)
    if (same_hook(known, hook))
      return;
  std::erase_if(hooks, [](const auto& known) { return known.expired(); });
  hooks.push_back(hook);
}

MustNotWait::MustNotWait() : former_(std::exchange(must_not_wait, true)) {}

MustNotWait::~MustNotWait() {
  must_not_wait = former_;
}

Blocking::Blocking() {
  if (must_not_wait)
    throw Error(
        "[rpc] expected a function that does not wait on a thread of the network, got "
        "one that does; give then() an executor, or do not mark the function quick");
  wake_late();  // they may be who this thread waits for
  run_put_off_continuations();
  const BlockingHooks& hooks = blocking_hooks();
  if (hooks.empty())
    return;
  blocked_.reserve(hooks.size());
  try {
    // By index: a hook may add another.
    for (std::size_t i = 0; i < hooks.size(); ++i)
      if (auto hook = hooks[i].lock()) {
        hook->block();
        blocked_.push_back(std::move(hook));
      }
  } catch (...) {
    unblock();
    throw;
  }
}

Blocking::~Blocking() {
  unblock();
}

void Blocking::unblock() noexcept {
  for (auto hook = blocked_.rbegin(); hook != blocked_.rend(); ++hook)
    (*hook)->unblock();
  blocked_.clear();
}

}  // namespace trireme::rpc
