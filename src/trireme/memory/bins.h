// The blocks that a cache holds, by size class. One thread at a time.
#pragma once
#include <array>
#include <cstdint>

#include "trireme/memory/block.h"

namespace trireme::memory {

class Bins {
 public:
  /// The block of this class that was freed last, or null. `now` is the caller's clock.
  Block* pop(std::size_t size_class, std::int64_t now) noexcept {
    Bin& bin = bins_[size_class];
    bin.last_use = now;
    Block* block = bin.first;
    if (block != nullptr) {
      bin.first = block->next;
    }
    return block;
  }

  void push(Block& block, std::int64_t now) noexcept {
    Bin& bin = bins_[block.size_class];
    bin.last_use = now;
    block.next = bin.first;
    bin.first = &block;
  }

  /// A block of the class that was not used for longest, or null if there is none.
  Block* pop_oldest() noexcept;

  /// All of them, as a list that ends with `rest`.
  Block* take_all(Block* rest) noexcept;

 private:
  struct Bin {
    Block* first = nullptr;
    std::int64_t last_use = 0;
  };
  std::array<Bin, kSizeClasses> bins_;
};

}  // namespace trireme::memory
