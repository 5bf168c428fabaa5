#include "trireme/dp/output_watch.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/graph_ends.h"

namespace trireme::dp {

/// Hands gradients on as they are.
class OutputWatch::Sink final : public autograd::Node {
 public:
  Sink(
      autograd::Edge edge,
      std::shared_ptr<Link> link,
      std::shared_ptr<Output> output,
      std::shared_ptr<int> alive,
      bool with_copies)
      : Node(autograd::edge_list{std::move(edge)}),
        link_(std::move(link)),
        output_(std::move(output)),
        alive_(std::move(alive)),
        with_copies_(with_copies) {
    output_->root = next_edge(0).function.get();
  }
  ~Sink() override {
    // A backward of other outputs of this forward may still ask what lay behind.
    if (link_->reducer != nullptr && output_->round < 0 && alive_.use_count() > 1)
      output_->behind = reach_of({output_.get()}).nodes;
    output_->root = nullptr;
  }

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    Reducer* reducer = link_->reducer;
    if (reducer != nullptr && reducer->hooks().in_pass()) {
      if (with_copies_ && link_->before_backward)
        link_->before_backward();
      reducer->begin_pass();
      output_->round = reducer->rounds();
    }
    return std::move(gradients);
  }

 private:
  std::shared_ptr<Link> link_;
  std::shared_ptr<Output> output_;
  std::shared_ptr<int> alive_;
  bool with_copies_;
};

OutputWatch::OutputWatch(Reducer& reducer)
    : reducer_(reducer), link_(std::make_shared<Link>(Link{&reducer, {}})) {
  reducer_.set_exemptions(this);
}

OutputWatch::~OutputWatch() {
  reducer_.set_exemptions(nullptr);
  link_->reducer = nullptr;
}

void OutputWatch::begin_forward(bool with_copies) {
  with_copies_ = with_copies;
  std::erase_if(forwards_, [](const Forward& forward) {
    return forward.alive.expired() ||
           std::any_of(
               forward.outputs.begin(), forward.outputs.end(), [](const auto& output) {
                 return output->round >= 0;
               });
  });
  exempt_round_ = -1;
  alive_ = std::make_shared<int>(0);
  forwards_.push_back({.outputs = {}, .alive = alive_});
}

at::Tensor OutputWatch::watch(const at::Tensor& output) {
  if (!output.defined() || !output.requires_grad())
    return output;
  auto seen = std::make_shared<Output>();
  forwards_.back().outputs.push_back(seen);
  // Shares memory and version with the output, so that writes into it are noticed.
  at::Tensor alias = output.detach();
  torch::autograd::create_gradient_edge(
      alias,
      autograd::make_node<Sink>(
          torch::autograd::impl::gradient_edge(output),
          link_,
          seen,
          alive_,
          with_copies_));
  return alias;
}

void OutputWatch::end_forward() {
  alive_.reset();
  if (!reducer_.options().find_unused)
    return;
  std::vector<const Output*> outputs;
  bool elsewhere = false;
  for (const Forward& forward : forwards_) {
    elsewhere |= forward.elsewhere;
    for (const auto& output : forward.outputs)
      outputs.push_back(output.get());
  }
  if (outputs.empty() && !elsewhere)
    return;
  const Reach reach = reach_of(outputs);
  std::vector<uint8_t> reached;
  // Where it goes on elsewhere it may come back, to any parameter.
  for (size_t i = 0; !elsewhere && !reach.elsewhere && i < reducer_.parameters().size();
       ++i)
    reached.push_back(reach.nodes.contains(reducer_.hooks().node(i).get()) ? 1 : 0);
  reducer_.set_reached(std::move(reached));
}

OutputWatch::Reach OutputWatch::reach_of(const std::vector<const Output*>& outputs) {
  Reach reach;
  Nodes& seen = reach.nodes;
  std::vector<const autograd::Node*> open;
  const auto visit = [&](const autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second)
      open.push_back(node);
  };
  for (const Output* output : outputs)
    visit(output->root);
  while (!open.empty()) {
    const autograd::Node* node = open.back();
    open.pop_back();
    reach.elsewhere |= autograd::goes_on_elsewhere(*node);
    for (const autograd::Edge& edge : node->next_edges())
      visit(edge.function.get());
  }
  for (const Output* output : outputs)
    seen.insert(output->behind.begin(), output->behind.end());
  return reach;
}

bool OutputWatch::is_exempt(const autograd::Node* node) {
  if (exempt_round_ != reducer_.rounds()) {
    std::vector<const Output*> outputs;
    for (const Forward& forward : forwards_)
      for (const auto& output : forward.outputs)
        if (output->round != reducer_.rounds())
          outputs.push_back(output.get());
    exempt_ = reach_of(outputs).nodes;
    exempt_round_ = reducer_.rounds();
  }
  return exempt_.contains(node);
}

}  // namespace trireme::dp
