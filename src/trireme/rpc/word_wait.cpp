#include "trireme/rpc/word_wait.h"

#include <algorithm>
#include <array>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trireme/core/machine.h"

namespace trireme::rpc {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Returns for no reason too: callers look at the word again.
void word_sleep(
    const std::atomic<std::uint32_t>& word,
    std::uint32_t seen,
    std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  timespec time{};
  time.tv_sec = seconds.count();
  time.tv_nsec = (limit - seconds).count();
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &time, nullptr, 0);
}

// Whom this thread has yet to wake.
struct LateWords {
  std::array<const std::atomic<std::uint32_t>*, 16> words{};
  std::size_t count = 0;
  int scopes = 0;
};

LateWords& late_words() {
  thread_local LateWords late;
  return late;
}

}  // namespace

bool wait_while(
    const std::atomic<std::uint32_t>& word,
    std::uint32_t seen,
    const Deadline& deadline) {
  while (word.load(std::memory_order_acquire) == seen) {
    const auto left = deadline.remaining();
    if (left.count() <= 0)
      return false;
    wake_late();  // they may be who changes the word
    word_sleep(word, seen, left);
  }
  return true;
}

void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  while (!wait_while(word, seen, Deadline::after(Deadline::kLongest))) {
  }
}

void wake_one(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void wait_a_moment(
    const std::atomic<std::uint32_t>& word,
    std::uint32_t seen,
    std::chrono::nanoseconds limit) {
  if (limit.count() > 0)
    word_sleep(word, seen, limit);
}

LateWakes::LateWakes() {
  ++late_words().scopes;
}

LateWakes::~LateWakes() {
  if (--late_words().scopes == 0)
    wake_late();
}

void wake_all_later(const std::atomic<std::uint32_t>& word) {
  LateWords& late = late_words();
  if (late.scopes == 0 || late.count == late.words.size())
    return wake_all(word);
  late.words[late.count++] = &word;
}

void wake_late() {
  LateWords& late = late_words();
  while (late.count > 0)
    wake_all(*late.words[--late.count]);
}

std::chrono::microseconds spin_time() {
  // With fewer cores, those that do the work would wait for those that look.
  constexpr int kEnoughCores = 4;
  static const std::chrono::microseconds time(
      available_cores() >= kEnoughCores ? 30 : 0);
  return time;
}

}  // namespace trireme::rpc
