#include "trireme/data/token_loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Functions.h>

#include "trireme/core/error.h"
#include "trireme/data/windows.h"

namespace trireme::data {
namespace {

template <class... Parts>
[[noreturn]] void refuse_loading(const char* remedy, const Parts&... parts) {
  throw InvalidArgument(text("[data] expected ", parts..., "; ", remedy));
}

int64_t checked_windows(const TokenFile& file, const TokenLoaderOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    refuse_loading(
        "take both from the data parallel group",
        "a rank below the number of ranks, got rank ",
        options.rank,
        " of ",
        options.ranks);
  if (options.global_batch < 1 || options.global_batch % options.ranks != 0)
    refuse_loading(
        "make it a multiple of the ranks",
        "a global batch that ",
        options.ranks,
        " ranks can share evenly, got ",
        options.global_batch,
        " samples");
  if (options.prefetch < 0 || options.prefetch > 1024)
    refuse_loading(
        "2 is enough", "to make 0 to 1024 batches ahead, got ", options.prefetch);
  const int64_t windows = count_windows(file.size(), options.sequence_length);
  if (windows < 1)
    refuse_loading(
        "give more data or a smaller sequence length",
        "at least ",
        options.sequence_length,
        " tokens and one more for a sample, got ",
        file.size(),
        " (",
        file.describe(),
        ")");
  return windows;
}

/// Makes the batches: pure, but for reading the file.
class BatchMaker {
 public:
  BatchMaker(TokenFile file, const TokenLoaderOptions& options)
      : file_(std::move(file)),
        options_(options),
        windows_(checked_windows(file_, options)),
        order_({.windows = windows_, .shuffle = options.shuffle, .seed = options.seed}),
        tokens_(static_cast<size_t>(options.sequence_length) + 1) {}

  const TokenLoaderOptions& options() const { return options_; }
  int64_t windows() const { return windows_; }
  /// Beyond it the numbers of samples would run over.
  int64_t last_step() const {
    return std::numeric_limits<int64_t>::max() / options_.global_batch - 1;
  }
  TokenBatch make(int64_t step);

 private:
  TokenFile file_;
  TokenLoaderOptions options_;
  int64_t windows_;
  SampleOrder order_;
  std::vector<int64_t> tokens_;  // of one window
};

TokenBatch BatchMaker::make(int64_t step) {
  if (step > last_step())
    refuse_loading(
        "start at an earlier one", "a step up to ", last_step(), ", got ", step);
  const int64_t length = options_.sequence_length;
  const int64_t count = options_.global_batch / options_.ranks;
  TokenBatch batch{
      .inputs = at::empty({count, length}, at::kLong),
      .targets = at::empty({count, length}, at::kLong),
      .first_sample = options_.rank * count,
      .step = step};
  auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  const int64_t first = step * options_.global_batch + batch.first_sample;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t window = order_.window(first + i);
    file_.read(window * length, tokens_, options_.vocab_size);
    std::copy(tokens_.begin(), tokens_.end() - 1, inputs + i * length);
    std::copy(tokens_.begin() + 1, tokens_.end(), targets + i * length);
  }
  return batch;
}

}  // namespace

struct TokenLoader::State {
  State(TokenFile file, const TokenLoaderOptions& options)
      : maker(std::move(file), options), ring(static_cast<size_t>(options.prefetch)) {}
  ~State();

  TokenBatch take();
  void go_to(int64_t step);
  void run();
  void make_one(std::unique_lock<std::mutex>& lock);

  /// Of the thread; of next() where there is none.
  BatchMaker maker;
  /// The step of the next batch that is given; of the caller.
  int64_t position = 0;

  std::mutex mutex;
  std::condition_variable changed;
  // All below is under the mutex.
  /// Batches that are made: `made` of them, the oldest at `oldest`.
  std::vector<TokenBatch> ring;
  size_t oldest = 0;
  size_t made = 0;
  /// The step of the next batch that is made.
  int64_t next_step = 0;
  /// Counts the seeks: what was begun before one is thrown away.
  uint64_t seeks = 0;
  /// Came instead of the batch of next_step.
  std::exception_ptr error;
  bool ending = false;

  std::thread thread;  // starts with the first next()
};

TokenLoader::State::~State() {
  {
    const std::lock_guard lock(mutex);
    ending = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void TokenLoader::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ending || (made < ring.size() && !error); });
    if (ending)
      return;
    make_one(lock);
    changed.notify_all();
  }
}

void TokenLoader::State::make_one(std::unique_lock<std::mutex>& lock) {
  const int64_t step = next_step;
  const uint64_t seeks_before = seeks;
  lock.unlock();
  TokenBatch batch;
  std::exception_ptr trouble;
  try {
    batch = maker.make(step);
  } catch (...) {
    trouble = std::current_exception();
  }
  lock.lock();
  if (seeks != seeks_before)
    return;
  error = trouble;
  if (trouble)
    return;
  ring[(oldest + made++) % ring.size()] = std::move(batch);
  ++next_step;
}

TokenBatch TokenLoader::State::take() {
  if (ring.empty())
    return maker.make(position);
  if (!thread.joinable())
    thread = std::thread(&State::run, this);
  TokenBatch batch;
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return made > 0 || error; });
    if (made == 0)
      std::rethrow_exception(error);
    batch = std::exchange(ring[oldest], {});
    oldest = (oldest + 1) % ring.size();
    --made;
  }
  changed.notify_all();
  return batch;
}

void TokenLoader::State::go_to(int64_t step) {
  position = step;
  {
    const std::lock_guard lock(mutex);
    for (TokenBatch& batch : ring)
      batch = {};
    made = 0;
    next_step = step;
    ++seeks;
    error = nullptr;
  }
  changed.notify_all();
}

TokenLoader::TokenLoader(TokenFile file, const TokenLoaderOptions& options)
    : state_(std::make_unique<State>(std::move(file), options)) {}
TokenLoader::~TokenLoader() = default;
TokenLoader::TokenLoader(TokenLoader&&) noexcept = default;
TokenLoader& TokenLoader::operator=(TokenLoader&&) noexcept = default;

TokenBatch TokenLoader::next() {
  TokenBatch batch = state_->take();
  ++state_->position;
  return batch;
}

int64_t TokenLoader::position() const {
  return state_->position;
}

void TokenLoader::seek(int64_t step) {
  if (step < 0 || step > state_->maker.last_step())
    refuse_loading(
        "seek to what position() gave",
        "a step from 0 to ",
        state_->maker.last_step(),
        ", got ",
        step);
  state_->go_to(step);
}

int64_t TokenLoader::windows() const {
  return state_->maker.windows();
}

const TokenLoaderOptions& TokenLoader::options() const {
  return state_->maker.options();
}

}  // namespace trireme::data
