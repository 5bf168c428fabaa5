#include "trireme/memory/bins.h"

#include <utility>

namespace trireme::memory {

Block* Bins::pop_oldest() noexcept {
  Bin* oldest = nullptr;
  for (Bin& bin : bins_) {
    if (bin.first != nullptr &&
        (oldest == nullptr || bin.last_use < oldest->last_use)) {
      oldest = &bin;
    }
  }
  if (oldest == nullptr) {
    return nullptr;
  }
  Block* block = oldest->first;
  oldest->first = block->next;
  return block;
}

Block* Bins::take_all(Block* rest) noexcept {
  for (Bin& bin : bins_) {
    Block* block = std::exchange(bin.first, nullptr);
    while (block != nullptr) {
      Block* next = block->next;
      block->next = std::exchange(rest, block);
      block = next;
    }
  }
  return rest;
}

}  // namespace trireme::memory
