#include "trireme/dist_autograd/step_commit.h"

#include <exception>
#include <utility>

#include "trireme/core/log.h"
#include "trireme/rpc/caller.h"
#include "trireme/rpc/future_all.h"

namespace trireme::dist_autograd {
namespace {

namespace calls = optimizer_calls;

// A worker that is gone needs not know.
void tell_owners(
    const StepWord& word, const rpc::Function<void(StepId)>& function) noexcept {
  for (const rpc::WorkerId owner : word.owners)
    try {
      rpc::Caller(word.core, owner, {}).async(function, word.step);
    } catch (const std::exception& error) {
      TRIREME_LOG(debug, "dist_autograd")
          << "worker " << owner << " was not told the end of a step: " << error.what();
    }
}

rpc::Future<void> commit_on(
    const StepWord& word, rpc::WorkerId owner, const StepOrder& order) {
  return rpc::Caller(word.core, owner, {.timeout = Deadline::kLongest})
      .async(calls::commit, word.step, order);
}

rpc::Future<void> then_others(
    const StepWord& word, const StepOrder& order, rpc::Future<void> decided) {
  const StepWord decider{word.core, word.step, {word.owners.front()}};
  const StepWord others{
      word.core, word.step, {word.owners.begin() + 1, word.owners.end()}};
  if (const std::exception_ptr error = decided.error()) {
    tell_given_up(others);
    std::rethrow_exception(error);
  }
  return commit_each(others, order).then([decider] {
    tell_owners(decider, calls::settle);
  });
}

}  // namespace

void tell_given_up(const StepWord& word) noexcept {
  tell_owners(word, calls::give_up);
}

rpc::Future<void> commit_each(const StepWord& word, const StepOrder& order) {
  // What is begun here goes on when the call ends inside which this is.
  const rpc::CallScope alone(nullptr);
  std::vector<rpc::Future<void>> done;
  for (const rpc::WorkerId owner : word.owners)
    done.push_back(commit_on(word, owner, order));
  word.core->engine().flush();
  return rpc::all(std::move(done));
}

rpc::Future<void> commit_all_or_none(const StepWord& word, const StepOrder& order) {
  const rpc::CallScope alone(nullptr);
  rpc::Future<void> decided = commit_on(word, word.owners.front(), order);
  word.core->engine().flush();
  return std::move(decided).handle(
      [word, order](rpc::Future<void> done) {
        return then_others(word, order, std::move(done));
      },
      &word.core->pool());
}

}  // namespace trireme::dist_autograd
