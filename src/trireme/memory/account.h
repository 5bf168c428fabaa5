// Who holds how much memory: accounts, to which threads charge their tensors.
#pragma once
#include <cstdint>
#include <memory>

namespace trireme::memory {

class AccountState;

/// The bytes of tensors that a rank holds, now and at most. It counts what was asked
/// for, exactly, and only what the caching allocator has given out
/// (install_caching_allocator). A tensor belongs to the account of the thread that made
/// it, and stays there wherever it goes: it is taken off when it dies, on any thread,
/// also after the last MemoryAccount of that account has gone.
///
///     MemoryAccount account;
///     {
///       AccountScope scope(account);
///       run_step();
///     }
///     std::cout << account.peak() << " bytes at most\n";
///
/// Copies are the same account. Any thread may call it.
class MemoryAccount {
 public:
  /// A new account.
  MemoryAccount();
  /// The account of the process: of threads that are in no AccountScope, and of all
  /// other accounts too. Its peak is exact as long as there are no others, and with
  /// them to within 256 KiB for each.
  static MemoryAccount process();
  /// What the calling thread charges to: for helper threads, which join their rank's.
  ///
  ///     std::thread helper([account = MemoryAccount::current()] {
  ///       AccountScope scope(account);
  ///       …
  ///     });
  static MemoryAccount current();

  /// The bytes of its living tensors.
  std::int64_t live() const;
  /// The most that live() has been since the account was made, or since reset_peak().
  std::int64_t peak() const;
  /// The peak begins anew at what is live now.
  void reset_peak();

 private:
  friend class AccountScope;
  explicit MemoryAccount(std::shared_ptr<AccountState> state);
  std::shared_ptr<AccountState> state_;
};

/// While it lives, the calling thread charges what it allocates to an account. Scopes
/// nest; each must end on the thread where it began.
class AccountScope {
 public:
  explicit AccountScope(MemoryAccount account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  friend class MemoryAccount;
  MemoryAccount account_;
  AccountScope* outer_;
};

}  // namespace trireme::memory
