#include "trireme/autograd/executor.h"

#include <algorithm>
#include <utility>

#include <c10/util/irange.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "trireme/autograd/call_node.h"
#include "trireme/autograd/graph_ends.h"
#include "trireme/core/error.h"

namespace trireme::autograd {
namespace {

using torch::autograd::AccumulateGrad;

thread_local Executor* current_executor = nullptr;

}  // namespace

void Executor::begin(const PassOptions& options) {
  if (options.store == nullptr)
    throw InvalidArgument(
        "[autograd] expected a store for the gradients of a pass, got none; leave "
        "PassOptions::store as it is, which means .grad, or give a GradientMap");
  if (store_ != nullptr)
    throw InvalidArgument(
        "[autograd] expected an executor that is not running a pass, got one that is; "
        "make another one for a pass inside a pass");
  store_ = options.store;
  sink_ = options.outer;
  keep_graph_ = options.keep_graph;
  counts_ = options.counts;
}

Executor::PassScope::PassScope(Executor& executor, const PassOptions& options)
    : self_(executor), grad_mode_(false) {
  self_.begin(options);
  self_.outer_ = std::exchange(current_executor, &self_);
}

Executor::PassScope::~PassScope() {
  current_executor = self_.outer_;
  self_.reset();
}

variable_list Executor::PassScope::finish() {
  self_.call_at_end();
  return std::move(self_.results_);
}

void Executor::call_at_end() {
  running_ = nullptr;
  if (outer_ != nullptr)
    return;
  try {
    for (; !at_end_.empty(); at_end_.pop_front())  // they may add more
      at_end_.front().ended();
  } catch (...) {
    note_failure();
    throw;
  }
}

/// Inside of a catch.
void Executor::note_failure() noexcept {
  try {
    throw;
  } catch (const c10::Error& error) {
    failure_ = error.what_without_backtrace();
  } catch (const std::exception& error) {
    failure_ = error.what();
  } catch (...) {
    failure_ = "an error of an unknown type";
  }
}

Executor* Executor::current() {
  return current_executor;
}

void Executor::at_end(
    std::function<void()> ended, std::function<void(const std::string&)> failed) {
  Executor* outermost = this;
  while (outermost->outer_ != nullptr)
    outermost = outermost->outer_;
  outermost->at_end_.push_back({std::move(ended), std::move(failed)});
}

variable_list Executor::backward(Roots roots, const PassOptions& options) {
  PassScope pass(*this, options);
  name_inputs(options.inputs);
  enter(roots);
  discover();
  give_to_roots(roots.edges, 0, roots.gradients);
  drain();
  return pass.finish();
}

uint32_t Executor::slot_of(Node* node) {
  const auto [number, fresh] = index_.insert(node);
  if (fresh)
    slots_.emplace_back(node);
  return number;
}

void Executor::name_inputs(std::span<const NodePtr> inputs) {
  results_.assign(inputs.size(), {});
  for (const size_t i : c10::irange(inputs.size())) {
    if (!inputs[i] || inputs[i]->num_outputs() != 0 || inputs[i]->num_inputs() != 1)
      throw InvalidArgument(text(
          "[autograd] expected inputs that are leaves and need a gradient, got ",
          inputs[i] ? inputs[i]->name() : "none",
          " as number ",
          i,
          "; detach it and set requires_grad"));
    Slot& slot = slots_[slot_of(inputs[i].get())];
    if (slot.input >= 0)
      throw InvalidArgument(text(
          "[autograd] expected different inputs, got the same one as ",
          slot.input,
          " and ",
          i,
          "; name each leaf once"));
    slot.input = static_cast<int32_t>(i);
    slot.to_input = true;
  }
}

/// Checks the roots, and counts each of their gradients as one to wait for.
void Executor::enter(Roots& roots) {
  check_roots(roots.edges, roots.gradients);
  check_gradients(roots.edges, roots.gradients);
  count_roots(roots.edges);
}

void Executor::count_roots(const edge_list& edges) {
  for (const Edge& edge : edges) {
    const uint32_t target = target_of(edge.function.get());
    root_targets_.push_back(target);
    if (target < kSink)
      ++slots_[target].waits_for;
  }
}

uint32_t Executor::target_of(Node* node) {
  if (node == nullptr)
    return kNowhere;
  if (sink_ != nullptr && sink_->wants(node))
    return kSink;
  return slot_of(node);
}

/// Finds all nodes that are new and counts who waits for whom. slots_ grows while it is
/// walked.
void Executor::discover() {
  for (; discovered_ < slots_.size(); ++discovered_) {
    const uint32_t k = discovered_;
    slots_[k].first_edge = static_cast<uint32_t>(targets_.size());
    for (const Edge& edge : std::as_const(*slots_[k].node).next_edges()) {
      const uint32_t target = target_of(edge.function.get());
      targets_.push_back(target);
      if (target < kSink)
        ++slots_[target].waits_for;
    }
  }
}

void Executor::give_to_roots(
    edge_list& edges, uint32_t first, variable_list& gradients) {
  for (const size_t i : c10::irange(edges.size())) {
    const uint32_t target = root_targets_[first + i];
    if (target == kSink) {
      if (gradients[i].defined())
        sink_->take(edges[i], std::move(gradients[i]));
    } else if (is_input_pass_ && !slots_[target].to_input) {
      put_aside(edges[i], gradients[i]);
    } else {
      give(slots_[target], edges[i].input_nr, std::move(gradients[i]));
      arrived(target);
    }
  }
}

void Executor::give(Slot& slot, uint32_t input, at::Tensor&& gradient) {
  if (!gradient.defined())
    return;
  if (slot.gradients.empty())
    slot.gradients.resize(slot.node->num_inputs());
  add_gradient(slot.gradients[input], std::move(gradient));
}

void Executor::arrived(uint32_t index) {
  if (--slots_[index].waits_for == 0)
    make_ready(index);
}

void Executor::make_ready(uint32_t index) {
  ready_.push_back({slots_[index].node->sequence_nr(), index});
  std::push_heap(ready_.begin(), ready_.end());
}

void Executor::drain() {
  while (!ready_.empty()) {
    std::pop_heap(ready_.begin(), ready_.end());
    const uint32_t index = ready_.back().slot;
    ready_.pop_back();
    try {
      run(index);
    } catch (...) {
      note_failure();
      rethrow_from(*slots_[index].node);
    }
  }
}

void Executor::run(uint32_t index) {
  Slot& slot = slots_[index];
  Node& node = *slot.node;
  running_ = &node;
  if (slot.border_entry >= 0)
    return run_border_entry(index);
  variable_list gradients = std::move(slot.gradients);
  if (gradients.empty())
    gradients.resize(node.num_inputs());
  if (slot.input >= 0)
    return finish_input(slot, std::move(gradients));
  call_pre_hooks(node, gradients);
  if (node.num_outputs() == 0 && finish_leaf(slot, gradients))
    return;
  if (slot.border)
    return run_border(index, std::move(gradients));
  pass_on(index, call_node(node, std::move(gradients), keep_graph_));
  if (is_input_pass_ && !keep_graph_)
    cut_off_.push_back(std::move(node.next_edges()));
}

void Executor::finish_input(Slot& slot, variable_list gradients) {
  call_tensor_hooks(*slot.node, gradients);
  results_[static_cast<size_t>(slot.input)] = std::move(gradients[0]);
}

/// Takes up the gradient of a leaf; false if the node is another kind of end.
bool Executor::finish_leaf(Slot& slot, variable_list& gradients) {
  auto* leaf = dynamic_cast<AccumulateGrad*>(slot.node);
  if (leaf == nullptr)
    return false;
  accumulate(*leaf, gradients[0], *store_);
  for (const auto& hook : leaf->post_hooks())
    (*hook)({}, gradients);
  return true;
}

void Executor::pass_on(uint32_t index, variable_list outputs) {
  const std::span<const uint32_t> targets = targets_of(index);
  const edge_list& edges = slots_[index].node->next_edges();
  for (const size_t i : c10::irange(targets.size())) {
    if (targets[i] < kSink) {
      give(slots_[targets[i]], edges[i].input_nr, std::move(outputs[i]));
      arrived(targets[i]);
    } else if (targets[i] == kSink && outputs[i].defined()) {
      sink_->take(edges[i], std::move(outputs[i]));
    }
  }
}

bool Executor::wants(const Node* node) const {
  const uint32_t found = index_.find(node);
  if (found == NodeIndex::kNone)
    return sink_ != nullptr && sink_->wants(node);
  // The first half runs nothing that leads to weights only: what it took would be lost.
  return slots_[found].waits_for > 0 && (!is_input_pass_ || slots_[found].to_input);
}

void Executor::take(const Edge& edge, at::Tensor&& gradient) {
  const uint32_t found = index_.find(edge.function.get());
  if (found != NodeIndex::kNone)
    give(slots_[found], edge.input_nr, std::move(gradient));
  else
    sink_->take(edge, std::move(gradient));
}

void Executor::reset() {
  store_ = nullptr;
  sink_ = nullptr;
  weights_ = nullptr;
  counts_ = nullptr;
  is_input_pass_ = false;
  const bool outermost = std::exchange(outer_, nullptr) == nullptr;
  running_ = nullptr;
  results_.clear();
  slots_.clear();
  targets_.clear();
  root_targets_.clear();
  index_.clear();
  groups_.clear();
  discovered_ = shown_ = 0;
  ready_.clear();
  cut_off_.clear();
  const std::string why = std::exchange(failure_, {});
  if (outermost)
    for (const Ending& left : std::exchange(at_end_, {}))
      if (left.failed)
        left.failed(why);
}

/// A thread's turn at an open pass.
class Executor::Turn {
 public:
  explicit Turn(Executor& executor)
      : former_(std::exchange(current_executor, &executor)), grad_mode_(false) {}
  ~Turn() { current_executor = former_; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Executor* former_;
  c10::AutoGradMode grad_mode_;
};

void Executor::open(const PassOptions& options) {
  if (!options.inputs.empty())
    throw InvalidArgument(text(
        "[autograd] expected no inputs of an open pass, got ",
        options.inputs.size(),
        "; take their gradients from the store"));
  begin(options);
}

uint32_t Executor::add_roots(edge_list edges) {
  const auto first = static_cast<uint32_t>(root_targets_.size());
  count_roots(edges);
  groups_.push_back({std::move(edges), first});
  discover();
  return static_cast<uint32_t>(groups_.size() - 1);
}

void Executor::for_each_new_end(const std::function<void(Node&)>& visit) {
  for (; shown_ < slots_.size(); ++shown_) {
    Node& node = *slots_[shown_].node;
    if (goes_on_elsewhere(node))
      visit(node);
  }
}

void Executor::feed(uint32_t group, variable_list gradients) {
  const Turn turn(*this);
  RootGroup& roots = groups_[group];
  check_roots(roots.edges, gradients);
  check_gradients(roots.edges, gradients);
  give_to_roots(roots.edges, roots.first, gradients);
  drain();
}

void Executor::close() {
  const Turn turn(*this);
  call_at_end();
  reset();
}

void Executor::drop(const std::string& why) noexcept {
  if (store_ == nullptr)
    return;
  failure_ = why;
  reset();
}

}  // namespace trireme::autograd
