// What a split backward could split, and what not.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <typeindex>

#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// Counts the nodes that lead to inputs and to weights, by what a split backward made
/// of them.
///
///     SplitCounts counts;
///     executor.input_pass(roots, {.inputs = inputs, .counts = &counts}, weights);
class SplitCounts {
 public:
  enum Kind : size_t {
    /// One half in I, the other in W.
    kSplit,
    /// All of it in I; what it gave to weights has waited for W.
    kWhole,
    /// Called in I and in W, and whether it did half of its work each time is its own
    /// affair: so it is with functions that users write.
    kTwice
  };
  static constexpr size_t kKinds = 3;

  void add(Kind kind, const Node& node) {
    Entry& entry = entries_[kind][std::type_index(typeid(node))];
    if (entry.count++ == 0)
      entry.name = node.name();
  }
  void clear() { entries_ = {}; }

  int64_t total(Kind kind) const {
    int64_t sum = 0;
    for (const auto& [type, entry] : entries_[kind])
      sum += entry.count;
    return sum;
  }
  /// By the name of the node, as "MmBackward0".
  std::map<std::string, int64_t> names(Kind kind) const {
    std::map<std::string, int64_t> names;
    for (const auto& [type, entry] : entries_[kind])
      names[entry.name] += entry.count;
    return names;
  }

 private:
  struct Entry {
    std::string name;
    int64_t count = 0;
  };
  /// By type: to ask every node for its name would cost an allocation each.
  std::array<std::map<std::type_index, Entry>, kKinds> entries_;
};

}  // namespace trireme::autograd
