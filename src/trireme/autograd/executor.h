// A backward pass on the calling thread, fused or split into its two halves. The
// module's main type.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <c10/core/GradMode.h>

#include "trireme/autograd/gradient_store.h"
#include "trireme/autograd/node.h"
#include "trireme/autograd/node_index.h"
#include "trireme/autograd/pass.h"
#include "trireme/autograd/split_node.h"

namespace trireme::autograd {

/// Runs backward over torch's graph, on the calling thread and without torch's engine:
/// same nodes, same order, same hooks and the same bits, for less than half the price
/// on small nodes. Keeps its memory from pass to pass, so one is made a thread and used
/// again. create_graph is the engine's alone; so are Engine::queue_callback(), for
/// which at_end() stands here, and get_current_node(), for which running_node() does.
///
///     Executor executor;
///     executor.backward({{edge_of_loss}, {at::ones({})}}, {});
///
/// The split pass is exact: input_pass() computes the gradients of the inputs only, and
/// frees what it can; weight_pass() the gradients of all other leaves. Every hook fires
/// once: those of a node that both halves run, in the first. A few nodes run as a whole
/// in the first half, and what they give to weights waits for the second: those with
/// post-hooks or marked by run_whole(), in-place operations on views, and those whose
/// weights are all vectors. A node that does not look which gradients are wanted, as a
/// function of one's own, does all of its work in both halves: see SplitCounts.
///
/// With torch's anomaly mode on, a node that gives NaN is an error here too.
///
/// A node that fails is named: an error of torch's gets it as context and keeps its
/// type, an error of ours passes as it is, any other is nested in a trireme::Error. The
/// executor can be used again afterwards, the graph cannot.
class Executor final : public GradientSink {
 public:
  Executor() = default;
  ~Executor() { drop("its executor is gone"); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Both halves. Gives the gradients of options.inputs.
  variable_list backward(Roots roots, const PassOptions& options);

  /// I: the gradients of options.inputs. What weights still need goes into `weights`;
  /// the graph comes apart, unless it is kept.
  variable_list input_pass(
      Roots roots, const PassOptions& options, WeightRest& weights);
  /// W: the gradients of all other leaves.
  void weight_pass(WeightRest weights, const PassOptions& options);

  /// An open pass: its gradients come bit by bit, from any thread, though from one at a
  /// time, which is how one backward goes over several workers. First all roots, then
  /// the gradients of each group of them, once.
  ///
  ///     executor.open({.store = &gradients});
  ///     const uint32_t group = executor.add_roots({edge_of_loss});
  ///     executor.feed(group, {at::ones({})});  // runs whatever has all it waits for
  ///     executor.close();                      // when all groups were fed
  ///
  /// options.inputs must be empty.
  void open(const PassOptions& options);
  /// A group of roots, by its number. What its graph has beyond that of the others is
  /// looked at once; see for_each_new_end().
  uint32_t add_roots(edge_list edges);
  /// Calls `visit` with each node where the graph ends, leaves aside, that add_roots()
  /// has found since the last call of this.
  void for_each_new_end(const std::function<void(Node&)>& visit);
  /// The gradients of a group. After what this throws only drop() is left.
  void feed(uint32_t group, variable_list gradients);
  /// Ends the pass well, and calls what waits for the end.
  void close();
  /// Ends it otherwise, for that reason; nothing where no pass is open.
  void drop(const std::string& why = "") noexcept;

  /// Calls `ended` once when the outermost pass of this thread has ended well; what an
  /// engine's queued callback is elsewhere. Where the pass fails, or `ended` does,
  /// `failed` is called instead with the reason, and must not throw. For hooks.
  void at_end(
      std::function<void()> ended,
      std::function<void(const std::string& why)> failed = {});
  /// Where the running pass puts gradients.
  GradientStore& store() const { return *store_; }
  /// The executor whose pass runs on this thread, the innermost one; null outside of
  /// any.
  static Executor* current();
  /// The node that the running pass has called: who else asks is called by torch's
  /// engine, in a pass inside of ours.
  const Node* running_node() const { return running_; }

  /// For a pass inside this one: the nodes that this one still has to run.
  bool wants(const Node* node) const override;
  void take(const Edge& edge, at::Tensor&& gradient) override;
  /// Where the running pass counts what it splits; null if it does not.
  SplitCounts* counts() const { return counts_; }

 private:
  /// Roots of an open pass, which keep their graph.
  struct RootGroup {
    edge_list edges;
    /// Where its targets begin in root_targets_.
    uint32_t first = 0;
  };
  /// What at_end() was given.
  struct Ending {
    std::function<void()> ended;
    std::function<void(const std::string&)> failed;
  };
  class Turn;
  /// Targets of edges that lead to no slot: invalid ones, and nodes that sink_ takes.
  static constexpr uint32_t kNowhere = ~0U;
  static constexpr uint32_t kSink = ~0U - 1;
  struct Slot {
    explicit Slot(Node* n) : node(n) {}
    Node* node;
    /// How many gradients are still to come.
    uint32_t waits_for = 0;
    /// Where its edges begin in targets_.
    uint32_t first_edge = 0;
    /// Which of the inputs it is, or -1.
    int32_t input = -1;
    /// In W: which entry of the border it is, or -1.
    int32_t border_entry = -1;
    /// Set by mark(): whether it leads to an input, and whether it leads to a weight
    /// past all nodes that do, so that both halves run it.
    bool to_input = false;
    bool border = false;
    SplitNode* self_split = nullptr;
    variable_list gradients;
  };
  struct Ready {
    uint64_t sequence;
    uint32_t slot;
    bool operator<(const Ready& other) const { return sequence < other.sequence; }
  };
  /// One pass: the executor is this thread's until it ends, and clean afterwards.
  class PassScope {
   public:
    PassScope(Executor& executor, const PassOptions& options);
    ~PassScope();
    PassScope(const PassScope&) = delete;
    PassScope& operator=(const PassScope&) = delete;
    /// Calls what waits for the end, if this is the outermost pass.
    variable_list finish();

   private:
    Executor& self_;
    c10::AutoGradMode grad_mode_;
  };

  void begin(const PassOptions& options);
  void call_at_end();
  void note_failure() noexcept;
  uint32_t slot_of(Node* node);
  void name_inputs(std::span<const NodePtr> inputs);
  void enter(Roots& roots);
  void count_roots(const edge_list& edges);
  void discover();
  uint32_t target_of(Node* node);
  void give_to_roots(edge_list& edges, uint32_t first, variable_list& gradients);
  void give(Slot& slot, uint32_t input, at::Tensor&& gradient);
  void arrived(uint32_t index);
  void make_ready(uint32_t index);
  void drain();
  void run(uint32_t index);
  void finish_input(Slot& slot, variable_list gradients);
  bool finish_leaf(Slot& slot, variable_list& gradients);
  void pass_on(uint32_t index, variable_list outputs);
  void reset();
  /// Edges of a slot in targets_.
  std::span<uint32_t> targets_of(uint32_t index) {
    const uint32_t first = slots_[index].first_edge;
    const size_t end =
        index + 1 < slots_.size() ? slots_[index + 1].first_edge : targets_.size();
    return {targets_.data() + first, end - first};
  }

  // In executor_split.cpp.
  void sort_by_depth();
  void mark();
  void put_aside(Edge& edge, at::Tensor& gradient);
  bool leads_to_weights(uint32_t target) const {
    return target < kSink && !slots_[target].to_input;
  }
  bool has_vectors_only(uint32_t index);
  void run_border(uint32_t index, variable_list gradients);
  void run_whole_border(uint32_t index, variable_list gradients);
  edge_list cut_weights(uint32_t index);
  void leave_to_weights(Node& node, WeightRest::Border border, edge_list to_weights);
  void enter_border(WeightRest& weights);
  void run_border_entry(uint32_t index);

  GradientStore* store_ = nullptr;
  GradientSink* sink_ = nullptr;
  SplitCounts* counts_ = nullptr;
  bool keep_graph_ = false;
  /// What the first half fills, or the second one empties.
  WeightRest* weights_ = nullptr;
  bool is_input_pass_ = false;
  Executor* outer_ = nullptr;
  Node* running_ = nullptr;
  variable_list results_;
  std::vector<Slot> slots_;
  /// The slots that the edges of each node lead to, node after node.
  std::vector<uint32_t> targets_;
  /// The same of the roots.
  std::vector<uint32_t> root_targets_;
  NodeIndex index_;
  /// Of an open pass; how many slots were discovered, and shown to for_each_new_end().
  std::vector<RootGroup> groups_;
  uint32_t discovered_ = 0;
  uint32_t shown_ = 0;
  /// A heap: the node that was made last comes first, as in torch's engine; also where
  /// two are equal, since it is the same kind of heap.
  std::vector<Ready> ready_;
  /// Memory of mark().
  std::vector<uint32_t> order_;
  std::vector<uint32_t> open_;
  /// The edges of nodes that the first half has run: needed to its end, and not beyond.
  /// Saved tensors that wait for W would hold the whole graph below them by these.
  std::vector<edge_list> cut_off_;
  std::deque<Ending> at_end_;
  std::string failure_;
};

}  // namespace trireme::autograd
