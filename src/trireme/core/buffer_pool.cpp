#include "trireme/core/buffer_pool.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <new>
#include <utility>

#include "trireme/core/error.h"

namespace trireme {
namespace {

// Smaller blocks would cost more than they save.
constexpr std::size_t kSmallest = 256;

// A cached block holds its link in its own memory, so that giving back never allocates
// and cannot fail.
struct FreeBlock {
  FreeBlock* next;
};

}  // namespace

class BufferPoolState {
 public:
  explicit BufferPoolState(BufferPoolOptions options) : options_(options) {}
  ~BufferPoolState() { trim(); }

  std::byte* take(std::size_t capacity) {
    if (std::byte* cached = take_cached(capacity)) {
      return cached;
    }
    try {
      return allocate(capacity);
    } catch (const std::bad_alloc&) {
      trim();
    }
    try {
      return allocate(capacity);
    } catch (const std::bad_alloc&) {
      const std::lock_guard lock(mutex_);
      remove_live(capacity);
      throw;
    }
  }

  void give_back(std::byte* data, std::size_t capacity) noexcept {
    auto* block = new (data) FreeBlock{nullptr};
    FreeBlock* evicted = nullptr;
    {
      const std::lock_guard lock(mutex_);
      remove_live(capacity);
      if (capacity > options_.max_cached_bytes) {
        evicted = block;
      } else {
        evicted = make_room(capacity);
        Class& mine = classes_[size_class_of(capacity)];
        block->next = std::exchange(mine.first, block);
        mine.capacity = capacity;
        mine.last_use = ++clock_;
        stats_.cached_bytes += capacity;
        ++stats_.cached_buffers;
      }
    }
    free_all(evicted);
  }

  void trim() noexcept {
    FreeBlock* evicted = nullptr;
    {
      const std::lock_guard lock(mutex_);
      evicted = make_room(options_.max_cached_bytes);
    }
    free_all(evicted);
  }

  // From now on nothing is kept: there is no one left to take it.
  void close() noexcept {
    {
      const std::lock_guard lock(mutex_);
      options_.max_cached_bytes = 0;
    }
    trim();
  }

  BufferPoolStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  struct Class {
    FreeBlock* first = nullptr;
    std::size_t capacity = 0;
    std::uint64_t last_use = 0;
  };

  // Counts the buffer as live, whether there was one or not.
  std::byte* take_cached(std::size_t capacity) {
    const std::lock_guard lock(mutex_);
    stats_.live_bytes += capacity;
    ++stats_.live_buffers;
    Class& mine = classes_[size_class_of(capacity)];
    mine.last_use = ++clock_;
    if (mine.first == nullptr) {
      ++stats_.misses;
      return nullptr;
    }
    ++stats_.hits;
    return reinterpret_cast<std::byte*>(pop(mine));
  }

  FreeBlock* pop(Class& from) {
    stats_.cached_bytes -= from.capacity;
    --stats_.cached_buffers;
    return std::exchange(from.first, from.first->next);
  }

  void remove_live(std::size_t capacity) {
    stats_.live_bytes -= capacity;
    --stats_.live_buffers;
  }

  // Takes blocks out of the cache until `capacity` fits, and returns them as a list:
  // the caller frees them without the lock, since that may take long.
  FreeBlock* make_room(std::size_t capacity) {
    FreeBlock* evicted = nullptr;
    while (stats_.cached_bytes > options_.max_cached_bytes - capacity) {
      Class* oldest = nullptr;
      for (Class& one : classes_) {
        if (one.first && (!oldest || one.last_use < oldest->last_use)) {
          oldest = &one;
        }
      }
      FreeBlock* block = pop(*oldest);
      block->next = std::exchange(evicted, block);
    }
    return evicted;
  }

  std::byte* allocate(std::size_t capacity) {
    return static_cast<std::byte*>(
        ::operator new(capacity, std::align_val_t(options_.alignment)));
  }

  void free_all(FreeBlock* block) {
    while (block != nullptr) {
      FreeBlock* next = block->next;
      ::operator delete(block, std::align_val_t(options_.alignment));
      block = next;
    }
  }

  mutable std::mutex mutex_;
  BufferPoolOptions options_;
  BufferPoolStats stats_;
  std::uint64_t clock_ = 0;
  std::array<Class, kSizeClasses> classes_;
};

Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer taken(std::move(other));
  std::swap(pool_, taken.pool_);
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(capacity_, taken.capacity_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) {
    pool_->give_back(data_, capacity_);
  }
}

BufferPool::BufferPool(BufferPoolOptions options) {
  constexpr std::size_t kMaxAlignment = std::size_t{2} << 20;
  if (!std::has_single_bit(options.alignment) || options.alignment < 8 ||
      options.alignment > kMaxAlignment) {
    throw InvalidArgument(text(
        "[core] expected a buffer alignment that is a power of two from 8 to ",
        kMaxAlignment,
        ", got ",
        options.alignment,
        "; 64 is right for most uses"));
  }
  state_ = std::make_shared<BufferPoolState>(options);
}

BufferPool::~BufferPool() {
  state_->close();
}

Buffer BufferPool::take(std::size_t bytes) {
  Buffer buffer;
  const std::size_t capacity = size_class(bytes);
  buffer.data_ = state_->take(capacity);
  buffer.pool_ = state_;
  buffer.size_ = bytes;
  buffer.capacity_ = capacity;
  return buffer;
}

void BufferPool::trim() {
  state_->trim();
}

BufferPoolStats BufferPool::stats() const {
  return state_->stats();
}

std::size_t BufferPool::size_class(std::size_t bytes) {
  if (bytes > kMaxBytes) {
    throw InvalidArgument(text(
        "[core] expected a buffer of at most ",
        kMaxBytes,
        " bytes, got ",
        bytes,
        "; look for a negative size or an overflow where it was computed"));
  }
  return class_capacity(size_class_of(std::max(bytes, kSmallest)));
}

}  // namespace trireme
