// Memory for messages, used again and again: a fresh large block costs page faults that
// take longer than the copy into it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "trireme/core/size_class.h"

namespace trireme {

class BufferPoolState;

/// The limits of a BufferPool.
struct BufferPoolOptions {
  /// The most memory that is kept for later; what is beyond goes back to the system.
  std::size_t max_cached_bytes = std::size_t{64} << 20;
  /// The alignment of every buffer, a power of two from 8 to 2 MiB.
  std::size_t alignment = 64;
};

/// What a BufferPool holds now, and how well it has done so far.
struct BufferPoolStats {
  /// Capacity in the hands of callers.
  std::size_t live_bytes = 0;
  std::size_t live_buffers = 0;
  /// Capacity that waits for the next `take`.
  std::size_t cached_bytes = 0;
  std::size_t cached_buffers = 0;
  /// How many calls of `take` were served from the cache, and how many by the system.
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
};

/// A block of memory from a BufferPool; it goes back when this is destroyed. It can be
/// moved but not copied, and may outlive its pool. The contents are not initialised.
class Buffer {
 public:
  /// No block: size 0, data null. What was moved from is so too.
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  /// The first byte; not null for a buffer that was taken, even one of 0 bytes.
  std::byte* data() const { return data_; }
  /// The bytes that were asked for.
  std::size_t size() const { return size_; }
  /// The bytes that may be used, at least size().
  std::size_t capacity() const { return capacity_; }
  /// The bytes that were asked for, as a range.
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  friend class BufferPool;
  std::shared_ptr<BufferPoolState> pool_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Gives out buffers and keeps what comes back, in size classes: a capacity is
/// at most a quarter above the request, or 256 bytes. When the cache is full, the sizes
/// that were not asked for longest go first. Any thread may call it; buffers may be
/// destroyed on any thread.
///
///     BufferPool pool({.max_cached_bytes = 16 << 20});
///     Buffer buffer = pool.take(message.size());
///     std::memcpy(buffer.data(), message.data(), message.size());
class BufferPool {
 public:
  /// InvalidArgument for a wrong alignment.
  explicit BufferPool(BufferPoolOptions options = {});
  /// Frees the cache. Buffers that are still out are freed when they are destroyed.
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// The largest request, far above any machine's memory: more is a wrong size, as a
  /// negative number that became unsigned.
  static constexpr std::size_t kMaxBytes = kLargestRequest;

  /// A buffer of `bytes`, 0 included. InvalidArgument above kMaxBytes; std::bad_alloc
  /// when the memory is exhausted even without the cache.
  Buffer take(std::size_t bytes);

  /// Gives all cached memory back to the system.
  void trim();

  BufferPoolStats stats() const;

  /// The capacity of a buffer of `bytes`: 256, 320, 384, 448, 512, 640 and so on, that
  /// is powers of two with three steps between.
  static std::size_t size_class(std::size_t bytes);

 private:
  std::shared_ptr<BufferPoolState> state_;
};

}  // namespace trireme
