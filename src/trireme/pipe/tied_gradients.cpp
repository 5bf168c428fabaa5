#include "trireme/pipe/tied_gradients.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include "trireme/autograd/call_node.h"
#include "trireme/comm/gather_rows.h"
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

/// The shapes of all tied parameters, whoever has them: so every rank sees at the same
/// time what does not fit, and none waits for a value that will not come.
StageShapes gather_shapes(
    const std::vector<Tied>& tied,
    const std::vector<Stage>& stages,
    const comm::Group& group) {
  std::vector<int64_t> mine;
  for (size_t tie = 0; tie < tied.size(); ++tie)
    for (size_t place = 0; place < tied[tie].places.size(); ++place) {
      const TiedParameter& wanted = tied[tie].places[place];
      if (std::none_of(stages.begin(), stages.end(), [&](const Stage& stage) {
            return stage.index == wanted.stage;
          }))
        continue;
      const at::Tensor here = find_parameter(stages, wanted);
      mine.insert(
          mine.end(),
          {static_cast<int64_t>(tie),
           static_cast<int64_t>(place),
           static_cast<int64_t>(here.scalar_type()),
           here.dim()});
      mine.insert(mine.end(), here.sizes().begin(), here.sizes().end());
    }
  StageShapes shapes;
  for (const std::vector<int64_t>& row : comm::gather_rows(group, mine))
    for (auto at = row.begin(); at != row.end();) {
      const TiedParameter& place = tied[index(at[0])].places[index(at[1])];
      const auto sizes = at + 4;
      shapes[place.stage].push_back(
          {place.name, {sizes, sizes + at[3]}, static_cast<at::ScalarType>(at[2])});
      at = sizes + at[3];
    }
  return shapes;
}

/// What sums are taken in.
at::ScalarType sum_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

/// A gradient as two tensors, the second of which only a sparse one has: its indices.
void pack(const at::Tensor& gradient, Tensors& out) {
  if (!gradient.defined() || !gradient.is_sparse()) {
    out.insert(out.end(), {gradient, at::Tensor()});
    return;
  }
  const at::Tensor sparse = gradient.coalesce();
  out.insert(out.end(), {sparse.values(), sparse.indices()});
}

at::Tensor unpack(const Tensors& packed, size_t place, at::IntArrayRef sizes) {
  const at::Tensor& values = packed.at(2 * place);
  const at::Tensor& indices = packed.at(2 * place + 1);
  return indices.defined() ? at::sparse_coo_tensor(indices, values, sizes) : values;
}

}  // namespace

TiedGradients::TiedGradients(
    const std::vector<Tied>& tied,
    const std::vector<int>& rank_of_stage,
    const std::vector<Stage>& stages,
    const comm::Group& group,
    autograd::GradientStore& store,
    std::optional<at::ScalarType> dtype)
    : store_(store), dtype_(dtype) {
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
        is_tied_.insert(here.unsafeGetTensorImpl());
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
    ties_.push_back(std::move(tie));
  }
  check_tied(
      tied, static_cast<int>(rank_of_stage.size()), gather_shapes(tied, stages, group));
  for (const Tie& tie : ties_)
    equalise(tie);
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
    if (place.here.defined() && !place.here.is_same(value))
      place.here.copy_(value);
}

void TiedGradients::accumulate(
    const at::Tensor& leaf, const at::Tensor& gradient, size_t references) {
  if (!holds_back(leaf))
    return store_.accumulate(leaf, gradient, references);
  autograd::add_gradient(
      step_[leaf.unsafeGetTensorImpl()], gradient.to(sum_type(gradient.scalar_type())));
}

/// Those of this rank's places, packed, in the order of all places.
Tensors TiedGradients::own_gradients(const Tie& tie) const {
  Tensors packed;
  for (const Tie::Place& place : tie.places) {
    const auto found = place.here.defined()
                           ? step_.find(place.here.unsafeGetTensorImpl())
                           : step_.end();
    pack(found == step_.end() ? at::Tensor() : found->second, packed);
  }
  return packed;
}

/// On the home rank: the gradients of all places, in their order.
at::Tensor TiedGradients::sum_up(const Tie& tie) const {
  const at::IntArrayRef sizes = tie.places.front().here.sizes();
  const Tensors own = own_gradients(tie);
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < tie.places.size(); ++i)
    gradients.push_back(unpack(own, i, sizes));
  for (const Tie::Way& way : tie.ways) {
    const comm::Message message = way.up.receive();
    for (size_t i = 0; i < gradients.size(); ++i)
      if (tie.places[i].rank == way.rank)
        gradients[i] = unpack(message.tensors, i, sizes);
  }
  at::Tensor sum;
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined())
      autograd::add_gradient(sum, at::Tensor(gradient));
  comm::Message message;
  pack(sum, message.tensors);
  for (const Tie::Way& way : tie.ways)
    way.down.send(message);
  return sum;
}

at::Tensor TiedGradients::receive_sum(const Tie& tie) const {
  const auto here =
      std::find_if(tie.places.begin(), tie.places.end(), [](const Tie::Place& place) {
        return place.here.defined();
      });
  return unpack(tie.ways.front().down.receive().tensors, 0, here->here.sizes());
}

void TiedGradients::give(const at::Tensor& leaf, const at::Tensor& sum) {
  at::Tensor own = sum.to(dtype_.value_or(leaf.scalar_type()), false, /*copy=*/true);
  if (own.scalar_type() == leaf.scalar_type()) {
    store_.accumulate(leaf, own, 1);
  } else {
    at::Tensor total = store_.get(leaf);
    if (total.defined())
      total = total.to(own.scalar_type());
    autograd::add_gradient(total, std::move(own));
    store_.set(leaf, total);
  }
  autograd::call_post_accumulate_hooks(leaf, store_);
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
    const at::Tensor sum = tie.is_home ? sum_up(tie) : receive_sum(tie);
    if (sum.defined())
      for (const Tie::Place& place : tie.places)
        if (place.here.defined())
          give(place.here, sum);
  }
  step_.clear();
}

}  // namespace trireme::pipe
