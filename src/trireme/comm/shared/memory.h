// Memory that all ranks of a world can reach, addressed by offsets. One interface for
// ranks that are threads (the heap) and for ranks that are processes (a mapped
// segment).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace trireme::comm {

/// One rank's view of its world's memory. A rank allocates only in its own part, so no
/// lock is shared between processes and a dead rank cannot leave one held. Thread-safe.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;

  std::byte* at(uint64_t offset) const { return base_ + offset; }
  template <class T>
  T* as(uint64_t offset) const {
    return reinterpret_cast<T*>(at(offset));
  }
  uint64_t offset_of(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(pointer) - base_);
  }

  /// Whether every rank can read these bytes in place.
  virtual bool contains(const void* pointer, size_t bytes) const = 0;
  /// A block of at least `bytes`, aligned to kBlockAlignment, content undefined.
  /// InvalidArgument when the host has no room: nothing was written then.
  virtual uint64_t allocate(size_t bytes) = 0;
  virtual void release(uint64_t offset) = 0;

  /// Keeps `try_free` until it returns true: for what a peer may still be reading. What
  /// never does dies with this memory, so it must not own the memory.
  void retire(std::function<bool()> try_free);
  /// Frees what can be freed by now.
  void reclaim();
  /// Drops what was retired without freeing it: when nobody is left to read it.
  void forget_retired();

  static constexpr size_t kBlockAlignment = 128;

 protected:
  explicit SharedMemory(std::byte* base) : base_(base) {}

 private:
  std::byte* base_;
  std::mutex retired_mutex_;
  std::vector<std::function<bool()>> retired_;
};

/// The memory of ranks that are threads: offsets are addresses, and all is shared. What
/// was not released is freed with the object.
class HeapMemory : public SharedMemory {
 public:
  HeapMemory() : SharedMemory(nullptr) {}
  ~HeapMemory() override;
  bool contains(const void*, size_t) const override { return true; }
  uint64_t allocate(size_t bytes) override;
  void release(uint64_t offset) override;

 private:
  std::mutex mutex_;
  std::set<uint64_t> blocks_;
};

/// Places blocks in a range of offsets: best fit, neighbours merged when freed. Pure
/// arithmetic; the caller commits memory up to high_water().
class BlockMap {
 public:
  BlockMap(uint64_t begin, uint64_t end) : begin_(begin), end_(end), next_(begin) {}
  /// The offset of a block of `bytes` (rounded up to the alignment); `end` if there is
  /// none.
  uint64_t take(size_t bytes);
  void give_back(uint64_t offset);
  /// Everything that is handed out lies below.
  uint64_t high_water() const { return next_; }
  uint64_t end() const { return end_; }
  uint64_t begin() const { return begin_; }
  /// Bytes handed out now.
  uint64_t used() const { return used_; }

 private:
  void add_free(uint64_t offset, uint64_t bytes);
  void remove_free(uint64_t offset, uint64_t bytes);

  uint64_t begin_, end_, next_;
  uint64_t used_ = 0;
  std::map<uint64_t, uint64_t> taken_;                    // offset -> bytes
  std::map<uint64_t, uint64_t> free_;                     // offset -> bytes
  std::set<std::pair<uint64_t, uint64_t>> free_by_size_;  // bytes, offset
};

}  // namespace trireme::comm
