#include "trireme/dp/join.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

/// Puts everything back however the scope is left.
class Scope {
 public:
  Scope(const std::vector<Joinable*>& joinables, const JoinOptions& options)
      : joinables_(joinables) {
    try {
      for (; begun_ < joinables_.size(); ++begun_)
        joinables_[begun_]->begin_join(options);
    } catch (...) {
      end();
      throw;
    }
  }
  ~Scope() { end(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  void end() {
    while (begun_ > 0)
      joinables_[--begun_]->end_join();
  }
  const std::vector<Joinable*>& joinables_;
  size_t begun_ = 0;
};

}  // namespace

void join(
    const std::vector<Joinable*>& joinables,
    const std::function<void()>& steps,
    const JoinOptions& options) {
  if (joinables.empty() ||
      std::find(joinables.begin(), joinables.end(), nullptr) != joinables.end())
    throw InvalidArgument(
        "[dp] expected at least one model to join, and no null among them, got "
        "otherwise; pass &model.replica()");
  if (!options.enable)
    return steps();
  const Scope scope(joinables, options);
  steps();
  for (bool more = true; more;) {
    more = joinables.front()->shadow_step();
    if (more && options.throw_on_early_end)
      throw InvalidArgument(
          "[dp] expected as many inputs on this rank as on the others, got less; give "
          "all ranks the same number of batches, or set throw_on_early_end to false");
    // The first one has said whether there is a step; the others go along.
    for (size_t i = 1; more && i < joinables.size(); ++i)
      joinables[i]->shadow_step();
  }
  for (Joinable* one : joinables)
    one->all_joined();
}

}  // namespace trireme::dp
