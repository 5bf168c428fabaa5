#include "trireme/memory/account.h"

#include <utility>

#include "trireme/memory/account_state.h"

namespace trireme::memory {
namespace {

thread_local constinit AccountScope* t_innermost = nullptr;

}  // namespace

MemoryAccount::MemoryAccount()
    : state_(&AccountState::open(), [](AccountState* state) { state->close(); }) {}

MemoryAccount::MemoryAccount(std::shared_ptr<AccountState> state)
    : state_(std::move(state)) {}

MemoryAccount MemoryAccount::process() {
  return MemoryAccount(
      std::shared_ptr<AccountState>(&AccountState::process(), [](AccountState*) {}));
}

MemoryAccount MemoryAccount::current() {
  return t_innermost == nullptr ? process() : t_innermost->account_;
}

std::int64_t MemoryAccount::live() const {
  return state_->live();
}

std::int64_t MemoryAccount::peak() const {
  return state_->peak();
}

void MemoryAccount::reset_peak() {
  state_->reset_peak();
}

AccountScope::AccountScope(MemoryAccount account)
    : account_(std::move(account)), outer_(std::exchange(t_innermost, this)) {
  AccountState::set_current(account_.state_.get());
}

AccountScope::~AccountScope() {
  t_innermost = outer_;
  AccountState::set_current(
      outer_ == nullptr ? nullptr : outer_->account_.state_.get());
}

}  // namespace trireme::memory
