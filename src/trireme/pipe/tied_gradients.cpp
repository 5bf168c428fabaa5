#include "trireme/pipe/tied_gradients.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include "trireme/core/error.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {
namespace {

using sched::index;

at::Tensor find_parameter(
    const std::vector<Stage>& stages, const TiedParameter& place) {
  for (const Stage& stage : stages)
    if (stage.index == place.stage)
      for (const auto& [name, tensor] : stage.module->parameters())
        if (name == place.name)
          return tensor;
  throw InvalidArgument(text(
      "[pipe] expected a parameter ",
      place.name,
      " in stage ",
      place.stage,
      ", got none; correct the declaration of what is tied"));
}

}  // namespace

TiedGradients::TiedGradients(
    const std::vector<Tied>& tied,
    const std::vector<int>& rank_of_stage,
    const std::vector<Stage>& stages,
    const comm::Group& group,
    autograd::GradientStore& store)
    : store_(store) {
  int tag = 0;
  for (const Tied& one : tied) {
    Tie tie;
    const int home = rank_of_stage[index(one.places.front().stage)];
    tie.is_home = home == group.rank();
    for (const TiedParameter& place : one.places) {
      const int rank = rank_of_stage[index(place.stage)];
      at::Tensor here;
      if (rank == group.rank()) {
        here = find_parameter(stages, place);
        // One tensor in two stages of a rank has one gradient already.
        for (const Tie::Place& earlier : tie.places)
          if (earlier.here.is_same(here))
            here = at::Tensor();
      }
      if (here.defined()) {
        is_tied_[here.unsafeGetTensorImpl()] = true;
        leaves_.push_back(here);
        tie.is_here = true;
      }
      tie.places.push_back({rank, here});
      const int up = tag++;
      const int down = tag++;
      const bool known_way =
          std::any_of(tie.ways.begin(), tie.ways.end(), [&](const auto& w) {
            return w.rank == rank;
          });
      if (rank != home && !known_way && (tie.is_home || rank == group.rank()))
        tie.ways.push_back(
            {rank,
             comm::Channel(group, {.from = rank, .to = home, .tag = up}),
             comm::Channel(group, {.from = home, .to = rank, .tag = down})});
    }
    equalise(tie);
    ties_.push_back(std::move(tie));
  }
}

/// The first place's value goes to all others.
void TiedGradients::equalise(const Tie& tie) const {
  const c10::AutoGradMode no_grad(false);
  if (!tie.is_here)
    return;
  at::Tensor value;
  if (tie.is_home) {
    value = tie.places.front().here;
    for (const Tie::Way& way : tie.ways)
      way.down.send({.tensors = {value}});
  } else {
    value = tie.ways.front().down.receive().tensors.at(0);
  }
  for (const Tie::Place& place : tie.places)
    if (place.here.defined() && !place.here.is_same(value)) {
      if (place.here.sizes() != value.sizes())
        throw InvalidArgument(text(
            "[pipe] expected tied parameters of one shape, got ",
            place.here.sizes(),
            " and ",
            value.sizes(),
            "; tie parameters that are alike"));
      place.here.copy_(value);
    }
}

void TiedGradients::accumulate(
    const at::Tensor& leaf, const at::Tensor& gradient, size_t references) {
  if (is_tied_.contains(leaf.unsafeGetTensorImpl()))
    step_.accumulate(leaf, gradient, references);
  else
    store_.accumulate(leaf, gradient, references);
}

std::vector<at::Tensor> TiedGradients::own_gradients(const Tie& tie) {
  std::vector<at::Tensor> gradients;
  for (const Tie::Place& place : tie.places)
    gradients.push_back(place.here.defined() ? step_.get(place.here) : at::Tensor());
  return gradients;
}

/// On the home rank: the gradients of all places, in their order.
at::Tensor TiedGradients::sum_up(const Tie& tie) {
  std::vector<at::Tensor> gradients = own_gradients(tie);
  for (const Tie::Way& way : tie.ways) {
    const comm::Message message = way.up.receive();
    for (size_t i = 0; i < gradients.size(); ++i)
      if (tie.places[i].rank == way.rank)
        gradients[i] = message.tensors.at(i);
  }
  at::Tensor sum;
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined())
      sum = sum.defined() ? sum.add(gradient) : gradient.clone();
  for (const Tie::Way& way : tie.ways)
    way.down.send({.tensors = {sum}});
  return sum;
}

void TiedGradients::finish() {
  const c10::AutoGradMode no_grad(false);
  // All send before any receives a sum, so that no order of the ties can lock up.
  for (const Tie& tie : ties_)
    if (tie.is_here && !tie.is_home)
      tie.ways.front().up.send({.tensors = own_gradients(tie)});
  for (const Tie& tie : ties_) {
    if (!tie.is_here)
      continue;
    const at::Tensor sum =
        tie.is_home ? sum_up(tie) : tie.ways.front().down.receive().tensors.at(0);
    if (sum.defined())
      for (const Tie::Place& place : tie.places)
        if (place.here.defined())
          store_.accumulate(place.here, sum.clone(), 1);
  }
  step_.clear();
}

}  // namespace trireme::pipe
