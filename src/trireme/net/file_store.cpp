#include "trireme/net/file_store.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/log.h"
#include "trireme/net/store_folder.h"
#include "trireme/net/watch_thread.h"

namespace trireme::net {
namespace {

using std::chrono::milliseconds;

// Over NFS the size of a file may be seconds old until somebody locks it.
constexpr milliseconds kLookAnyway = milliseconds(250);
// A call whose time is over may still look once.
constexpr milliseconds kOneLook = milliseconds(100);

Deadline at_least_one_look(Deadline deadline) {
  return deadline.remaining() > kOneLook ? deadline : Deadline::after(kOneLook);
}

/// Longer and longer pauses up to the option's.
class Backoff {
 public:
  explicit Backoff(milliseconds most) : most_(most) {}
  milliseconds next() {
    const milliseconds pause = std::min(pause_, most_);
    pause_ = pause * 3 / 2 + milliseconds(1);
    return pause;
  }

 private:
  milliseconds most_;
  milliseconds pause_ = milliseconds(1);
};

}  // namespace

struct FileStore::State {
  State(const std::filesystem::path& path, const FileStoreOptions& given)
      : options(given),
        folder(
            path,
            given.limits.total_bytes,
            [this](const std::string& key, const StoreValue& value) {
              tell_watchers(key, value);
            },
            Deadline::after(given.timeout)) {}

  /// Runs `work` with the folder, when no other thread or process has it.
  template <class Work>
  void visit(Deadline deadline, const Work& work);
  template <class Work>
  void visit(const Work& work) {
    visit(Deadline::after(options.timeout), work);
  }
  /// Looks again and again until `found` is true or the time is over.
  template <class Found>
  bool poll(Deadline deadline, const Found& found);
  void check_and_write(std::string_view key, const StoreValue& value);
  void tell_watchers(const std::string& key, const StoreValue& value);
  void keep_looking();
  /// With the mutex held: whether it is time for a visit.
  bool news_or_late();

  const FileStoreOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  bool busy = false;
  bool ended = false;
  std::chrono::steady_clock::time_point last_look;
  /// How many have been seen or made.
  std::uint64_t changes = 0;
  std::map<std::uint64_t, std::string> watches;
  std::uint64_t last_watch = 0;
  std::thread looker;
  WatchThread watchers;
  StoreFolder folder;
};

template <class Work>
void FileStore::State::visit(Deadline deadline, const Work& work) {
  deadline = at_least_one_look(deadline);
  std::unique_lock lock(mutex);
  if (!changed.wait_for(lock, deadline.remaining(), [this] { return !busy; }))
    throw TimeoutError(text(
        "[net] expected a turn at the store ",
        in_quotes(folder.path()),
        " within ",
        deadline.allowed().count(),
        " ms, got none: other threads wait for its lock; see whether a process that "
        "uses the store was stopped"));
  busy = true;
  // Not under the mutex: whoever waits for the lock must not hold up others' deadlines.
  lock.unlock();
  const auto leave = [this] {
    const std::lock_guard again(mutex);
    busy = false;
    last_look = std::chrono::steady_clock::now();
    changed.notify_all();
  };
  try {
    folder.visit(deadline, work);
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

template <class Found>
bool FileStore::State::poll(Deadline deadline, const Found& found) {
  for (Backoff backoff(options.poll);;) {
    bool result = false;
    std::uint64_t seen = 0;
    visit(deadline, [&] {
      result = found();
      const std::lock_guard lock(mutex);
      seen = changes;
    });
    if (result || deadline.expired())
      return result;
    std::unique_lock lock(mutex);
    // Another thread of this process may bring the news by its own visit.
    const auto has_changed = [&] { return changes != seen; };
    do {
      changed.wait_for(
          lock,
          std::min<Deadline::Clock::duration>(backoff.next(), deadline.remaining()),
          has_changed);
    } while (!deadline.expired() && !has_changed() && !news_or_late());
  }
}

bool FileStore::State::news_or_late() {
  if (busy)
    return false;  // whoever is there now will tell
  return std::chrono::steady_clock::now() - last_look > kLookAnyway ||
         folder.has_news();
}

void FileStore::State::check_and_write(std::string_view key, const StoreValue& value) {
  folder.map().check_set(key, *value);
  folder.write(key, value);
}

void FileStore::State::tell_watchers(const std::string& key, const StoreValue& value) {
  const std::lock_guard lock(mutex);
  ++changes;
  std::shared_ptr<const StoreChange> change;
  for (const auto& [id, prefix] : watches) {
    if (!key.starts_with(prefix))
      continue;
    using Kind = StoreChange::Kind;
    if (change == nullptr)
      change = std::make_shared<const StoreChange>(
          value ? StoreChange{Kind::Set, key, *value}
                : StoreChange{Kind::Erased, key, ""});
    watchers.push(id, change);
  }
}

// Finds for the watchers what other processes have written.
void FileStore::State::keep_looking() {
  bool in_order = true;
  for (Backoff backoff(options.poll);;) {
    {
      std::unique_lock lock(mutex);
      if (changed.wait_for(lock, backoff.next(), [this] { return ended; }))
        return;
      if (!news_or_late())
        continue;
    }
    try {
      visit([] {});
      in_order = true;
      backoff = Backoff(options.poll);
    } catch (const Error& error) {
      if (std::exchange(in_order, false))
        TRIREME_LOG(warn, "net") << "a watch of the store waits: " << error.what();
    }
  }
}

FileStore::FileStore(const std::filesystem::path& path, FileStoreOptions options)
    : state_(std::make_shared<State>(path, options)) {}

FileStore::~FileStore() {
  std::unique_lock lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
  std::thread looker = std::move(state_->looker);
  lock.unlock();
  if (looker.joinable())
    looker.join();
  state_->watchers.stop();  // a callback may be using this
}

void FileStore::set(std::string_view key, std::string_view value) {
  check_store_key(key);
  check_store_value(value);
  state_->visit([&] { state_->check_and_write(key, store_value(value)); });
}

std::string FileStore::get(std::string_view key, Deadline deadline) {
  check_store_key(key);
  StoreValue value;
  const bool there = state_->poll(deadline, [&] {
    value = state_->folder.map().find(key);
    return value != nullptr;
  });
  if (!there)
    throw_missing_keys(1, {std::string(key)}, deadline);
  return *value;
}

std::optional<std::string> FileStore::try_get(std::string_view key) {
  check_store_key(key);
  StoreValue value;
  state_->visit([&] { value = state_->folder.map().find(key); });
  return value ? std::optional(*value) : std::nullopt;
}

std::int64_t FileStore::add(std::string_view key, std::int64_t delta) {
  check_store_key(key);
  StoreValue sum;
  state_->visit([&] {
    sum = state_->folder.map().sum(key, delta);
    state_->check_and_write(key, sum);
  });
  return store_number(key, *sum);
}

StoreSwap FileStore::compare_set(
    std::string_view key,
    std::optional<std::string_view> expected,
    std::string_view desired) {
  check_store_key(key);
  check_store_value(desired);
  const StoreValue former = expected ? store_value(*expected) : nullptr;
  StoreSwap result;
  StoreValue value;
  state_->visit([&] {
    result.swapped = state_->folder.map().matches(key, former);
    if (result.swapped)
      state_->check_and_write(key, store_value(desired));
    value = state_->folder.map().find(key);
  });
  if (value)
    result.value = *value;
  return result;
}

void FileStore::wait(const std::vector<std::string>& keys, Deadline deadline) {
  check_store_keys(keys);
  std::vector<std::string> missing;
  const bool there = state_->poll(deadline, [&] {
    missing.clear();
    for (const std::string& key : keys)
      if (state_->folder.map().find(key) == nullptr)
        missing.push_back(key);
    return missing.empty();
  });
  if (!there)
    throw_missing_keys(keys.size(), missing, deadline);
}

bool FileStore::erase(std::string_view key) {
  check_store_key(key);
  bool there = false;
  state_->visit([&] {
    there = state_->folder.map().find(key) != nullptr;
    if (there)
      state_->folder.write(key, nullptr);
  });
  return there;
}

std::vector<std::string> FileStore::keys(std::string_view prefix) {
  check_store_prefix(prefix);
  std::vector<std::string> found;
  state_->visit([&] {
    found = state_->folder.map()
                .keys(prefix, nullptr, std::numeric_limits<std::size_t>::max())
                .keys;
  });
  return found;
}

StoreWatch FileStore::watch(std::string_view prefix, Callback callback) {
  check_store_prefix(prefix);
  std::uint64_t id = 0;
  // Inside a visit, so that what is there already is not reported as news.
  state_->visit([&] {
    const std::lock_guard lock(state_->mutex);
    id = ++state_->last_watch;
    state_->watchers.add(id, std::move(callback));
    state_->watches.emplace(id, prefix);
    if (!state_->looker.joinable())
      state_->looker = std::thread([state = state_.get()] { state->keep_looking(); });
  });
  return state_->watchers.handle(id, [state = std::weak_ptr(state_), id] {
    if (const auto there = state.lock()) {
      const std::lock_guard lock(there->mutex);
      there->watches.erase(id);
    }
  });
}

bool FileStore::remove(const std::filesystem::path& path) {
  return remove_store_folder(path, Deadline::after(std::chrono::minutes(1)));
}

}  // namespace trireme::net
