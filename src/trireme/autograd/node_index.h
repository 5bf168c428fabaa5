// A table from nodes to numbers that is cheap to empty.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// Numbers the nodes of a graph, in the order in which they are shown to it. clear()
/// takes no time, however large a graph was: an entry counts only while it bears the
/// stamp of the present graph.
///
///     NodeIndex index;
///     auto [number, fresh] = index.insert(node);  // 0, true
class NodeIndex {
 public:
  static constexpr uint32_t kNone = ~0U;
  struct Place {
    uint32_t number;
    bool fresh;
  };

  /// The node's number, which is the next one if it had none.
  Place insert(const Node* node) {
    if (2 * size_ >= entries_.size())
      grow();
    Entry& entry = entry_of(node);
    if (entry.stamp == stamp_)
      return {entry.number, false};
    entry = {node, stamp_, size_};
    return {size_++, true};
  }

  /// The node's number, or kNone.
  uint32_t find(const Node* node) const {
    if (size_ == 0)
      return kNone;
    const Entry& entry = const_cast<NodeIndex*>(this)->entry_of(node);
    return entry.stamp == stamp_ ? entry.number : kNone;
  }

  uint32_t size() const { return size_; }

  void clear() {
    size_ = 0;
    if (++stamp_ == 0) {  // all stamps were used: old entries could come back to life
      entries_.assign(entries_.size(), Entry());
      stamp_ = 1;
    }
  }

 private:
  struct Entry {
    const Node* node = nullptr;
    uint32_t stamp = 0;
    uint32_t number = 0;
  };

  /// Where the node is, or where it would go.
  Entry& entry_of(const Node* node) {
    const size_t mask = entries_.size() - 1;
    // Nodes lie at multiples of 16; the golden ratio spreads what is left.
    size_t place =
        (reinterpret_cast<uintptr_t>(node) >> 4) * 0x9E3779B97F4A7C15ULL >> 32;
    while (true) {
      Entry& entry = entries_[place & mask];
      if (entry.stamp != stamp_ || entry.node == node)
        return entry;
      ++place;
    }
  }

  void grow() {
    std::vector<Entry> old(entries_.empty() ? 64 : 2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.stamp == stamp_)
        entry_of(entry.node) = entry;
  }

  std::vector<Entry> entries_;
  uint32_t stamp_ = 1;
  uint32_t size_ = 0;
};

}  // namespace trireme::autograd
