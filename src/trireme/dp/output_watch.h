// Watches the outputs of a forward: which of them a backward starts from, and which
// parameters lie behind each.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/autograd/node.h"
#include "trireme/dp/reducer.h"

namespace trireme::dp {

/// Puts a node of its own behind each output, which changes nothing and copies nothing:
/// it tells the reducer that a backward begins, and later which outputs took no part in
/// the loss, so that the parameters behind those are not missed.
class OutputWatch final : public Exemptions {
 public:
  explicit OutputWatch(Reducer& reducer);
  ~OutputWatch();
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

  /// Called when a backward reaches an output of a forward with copies, before it goes
  /// on to what has saved them.
  void set_before_backward(std::function<void()> f) {
    link_->before_backward = std::move(f);
  }

  /// A new forward: forgets what no backward can come from any more. `with_copies` if
  /// parameters hold copies in another dtype.
  void begin_forward(bool with_copies = false);
  /// One of its outputs; the same memory, behind a node of ours if it has a gradient.
  at::Tensor watch(const at::Tensor& output);
  /// One of its outputs is on another worker: nobody here knows what lies behind it, so
  /// every parameter may have a gradient to come.
  void elsewhere() { forwards_.back().elsewhere = true; }
  /// All its outputs were seen: tells the reducer what they do not lead to, if it asks.
  void end_forward();

  bool is_exempt(const autograd::Node* node) override;

 private:
  class Sink;
  using Nodes = std::unordered_set<const autograd::Node*>;
  /// Holds nothing of the graph, so that this is gone as soon as the program drops it.
  struct Output {
    /// Where the graph begins, while somebody holds the output.
    const autograd::Node* root = nullptr;
    /// What lay behind it, when it was dropped without a backward.
    Nodes behind;
    /// The round that began at it last; -1 if none did.
    int64_t round = -1;
  };
  struct Forward {
    std::vector<std::shared_ptr<Output>> outputs;
    /// Lives as long as somebody can run backward from one of the outputs.
    std::weak_ptr<int> alive;
    bool elsewhere = false;
  };
  /// What sinks hold: empty when the watch is gone.
  struct Link {
    Reducer* reducer = nullptr;
    std::function<void()> before_backward;
  };
  /// The nodes behind some outputs, and whether the graph goes on at another worker.
  struct Reach {
    Nodes nodes;
    bool elsewhere = false;
  };
  static Reach reach_of(const std::vector<const Output*>& outputs);

  Reducer& reducer_;
  std::shared_ptr<Link> link_;
  std::vector<Forward> forwards_;
  std::shared_ptr<int> alive_;
  bool with_copies_ = false;
  /// Of the round that asked last.
  int64_t exempt_round_ = -1;
  Nodes exempt_;
};

}  // namespace trireme::dp
