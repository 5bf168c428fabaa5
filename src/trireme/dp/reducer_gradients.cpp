// Where gradients lie, and the order of buckets; the rest of Reducer is in reducer.cpp.
#include <algorithm>
#include <utility>

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/dp/reducer.h"

namespace trireme::dp {
namespace {

/// Below this share of bytes in another bucket, another order is not worth its price.
constexpr double kDriftThatMatters = 0.05;

/// Buckets in an order, those of late parameters last: what is ready only at the end
/// must not hold up the others.
template <class IsLate>
Buckets make_buckets(
    const std::vector<ParameterSize>& sizes,
    const std::vector<int>& order,
    const BucketLimits& limits,
    const IsLate& is_late) {
  std::vector<int> early;
  std::vector<int> late;
  for (const int i : order)
    (is_late(i) ? late : early).push_back(i);
  Buckets buckets = assign_buckets(sizes, early, limits);
  for (auto& bucket : assign_buckets(sizes, late, limits))
    buckets.push_back(std::move(bucket));
  return buckets;
}

}  // namespace

ParameterSize Reducer::size_of(const Parameter& parameter) const {
  const c10::ScalarType own = parameter.tensor.scalar_type();
  const auto reduction = options_.reduction_dtype();
  return {
      .elements = parameter.tensor.numel(),
      .dtype = reduction && c10::isFloatingType(own) ? *reduction : own,
      .sparse = parameter.sparse};
}

/// Another store than `.grad`: what it and `.grad` hold must not change when the places
/// are used for the other.
void Reducer::leave_places(autograd::GradientStore& store) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor gradient = store.get(parameters_[i].tensor);
    if (gradient.defined() && gradients_->holds(i, gradient))
      store.set(parameters_[i].tensor, gradient.clone());
  }
}

/// Moves a gradient to its place, which is what the store holds from then on: later
/// passes add to it there, in the dtype of the place, and whoever clears it clears it.
void Reducer::bring(size_t parameter, autograd::GradientStore& store) {
  const at::Tensor& tensor = parameters_[parameter].tensor;
  const at::Tensor gradient = store.get(tensor);
  if (!gradient.defined())
    return;
  if (gradient.requires_grad())
    warn_of_graph(parameter);
  if (parameters_[parameter].sparse) {
    if (gradient.scalar_type() != sizes_[parameter].dtype)
      store.set(tensor, gradient.detach().to(sizes_[parameter].dtype));
  } else if (!gradients_->holds(parameter, gradient)) {
    gradients_->put(parameter, gradient);
    store.set(tensor, gradients_->view(parameter));
  }
}

void Reducer::warn_of_graph(size_t parameter) {
  if (!std::exchange(warned_of_graph_, true))
    TRIREME_LOG(warn, "dp")
        << "expected a backward without create_graph, got a graph behind the gradient "
           "of "
        << parameters_[parameter].name
        << ", which reduced gradients do not keep; take gradients of gradients with "
           "torch::autograd::grad() inside the loss";
}

/// Brings a complete gradient to its place, or zeros if there is none.
void Reducer::put(size_t parameter) {
  if (!uses_places_)
    return;
  bring(parameter, *store_);
  const at::Tensor gradient = store_->get(parameters_[parameter].tensor);
  // Somebody may have dropped what came before, and what is complete only at the end
  // came without a call.
  Slot& slot = slots_[parameter];
  slot.used = gradient.defined() && (slot.used || slot.source == Source::Finish);
  if (parameters_[parameter].sparse)
    comm_->set_sparse(bucket_of(parameter), {gradient, slot.used});
  else if (!gradient.defined())
    gradients_->clear(parameter);
  // What weighs nothing changes nothing, whatever it is.
  if (options_.check_finite && gradient.defined() &&
      (options_.reduction != Reduction::WeightedMean || weight_ > 0))
    check_finite(parameter);
}

void Reducer::check_finite(size_t parameter) {
  const at::Tensor gradient = store_->get(parameters_[parameter].tensor);
  // A sum with NaN or infinity in it is neither small nor large.
  const at::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
  const at::Tensor sum = at::sum(values);
  if (at::isfinite(sum).item<bool>() || at::isfinite(values).all().item<bool>())
    return;
  throw Error(text(
      "[dp] expected finite gradients, got NaN or infinity on rank ",
      group().rank(),
      " in ",
      parameters_[parameter].name,
      "; look at that rank's inputs and at the learning rate"));
}

/// After the round: gradients go to those who read them.
void Reducer::give_back() {
  if (uses_places_)
    for (size_t i = 0; i < parameters_.size(); ++i)
      give_back(i);
  for (const size_t i : comm_->outcome().dropped)
    store_->set(parameters_[i].tensor, {});
  for (Slot& slot : slots_)
    slot.used = false;
  if (!store_->is_grad_field())
    leave_places(*store_);
  reduced_.clear();
  for (size_t i = 0; options_.norm && i < parameters_.size(); ++i)
    reduced_.push_back(
        comm_->times()[bucket_of(i)].skipped ? std::nullopt : mark_reduced(i));
}

void Reducer::give_back(size_t parameter) {
  const at::Tensor& tensor = parameters_[parameter].tensor;
  if (!tensor.requires_grad())
    return;
  const at::Tensor mine = store_->get(tensor);
  const c10::ScalarType dtype =
      options_.unrounded ? sizes_[parameter].dtype : tensor.scalar_type();
  // Nobody has a gradient for it: it stays as it was, so that optimizers skip it.
  if (!mine.defined() && comm_->outcome().used[parameter] == 0)
    return;
  if (parameters_[parameter].sparse) {
    const at::Tensor& rows = comm_->sparse_result(bucket_of(parameter));
    if (rows.defined())
      store_->set(tensor, rows.to(dtype));
  } else if (!mine.defined() || mine.scalar_type() != dtype) {
    store_->set(tensor, gradients_->view(parameter).to(dtype));
  }
}

std::optional<Reducer::Reduced> Reducer::mark_reduced(size_t parameter) const {
  const at::Tensor gradient = store_->get(parameters_[parameter].tensor);
  if (!gradient.defined())
    return std::nullopt;
  return Reduced{
      .tensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(
          gradient.getIntrusivePtr()),
      .version = static_cast<int64_t>(gradient._version())};
}

bool Reducer::is_as_reduced(size_t parameter) const {
  const at::Tensor gradient = store_->get(parameters_[parameter].tensor);
  if (parameter >= reduced_.size() || !reduced_[parameter] || !gradient.defined())
    return false;
  const Reduced& then = *reduced_[parameter];
  return then.tensor.lock() == gradient.getIntrusivePtr() &&
         then.version == static_cast<int64_t>(gradient._version());
}

void Reducer::plan_buckets(const std::vector<int>& order) {
  planned_order_ = order;
  buckets_ = make_buckets(sizes_, order, options_.limits(), [this](int i) {
    return slots_[static_cast<size_t>(i)].source == Source::Finish;
  });
  auto next = std::make_unique<FlatGradients>(
      lay_out(sizes_, buckets_, comm_->riders().room()), parameters_, comm_->group());
  for (size_t i = 0; gradients_ && i < parameters_.size(); ++i) {
    const at::Tensor gradient = store_->get(parameters_[i].tensor);
    if (!gradient.defined() || !gradients_->holds(i, gradient))
      continue;
    const bool as_reduced = is_as_reduced(i);
    next->put(i, gradient);
    store_->set(parameters_[i].tensor, next->view(i));
    if (as_reduced)
      reduced_[i] = mark_reduced(i);
  }
  gradients_ = std::move(next);
  comm_->use(*gradients_);
}

/// First what came, as it came, then what did not.
std::vector<int> Reducer::order_of_round() const {
  std::vector<int> order;
  std::vector<uint8_t> seen(slots_.size(), 0);
  for (const int i : order_)
    if (slots_[static_cast<size_t>(i)].used) {
      order.push_back(i);
      seen[static_cast<size_t>(i)] = 1;
    }
  for (const int i : planned_order_)
    if (!seen[static_cast<size_t>(i)])
      order.push_back(i);
  return order;
}

/// On rank 0, when all gradients are there: whether another order would let buckets
/// leave earlier. Rarer and rarer, since a graph that always changes has no order.
bool Reducer::wants_rebuild() {
  if (!options_.rebuild || state_ == State::Shadow || group().rank() != 0 ||
      round_ < next_rebuild_ || graph_ == Graph::Counting || order_ == planned_order_)
    return false;
  wanted_order_ = order_of_round();
  const Buckets wanted =
      make_buckets(sizes_, wanted_order_, options_.limits(), [this](int i) {
        return slots_[static_cast<size_t>(i)].source == Source::Finish;
      });
  return drift(sizes_, buckets_, wanted) > kDriftThatMatters;
}

/// All ranks are at the end of a round here, so nobody waits long.
void Reducer::rebuild() {
  if (group().rank() == 0)
    planned_order_ = wanted_order_;
  next_rebuild_ = 2 * round_;
  agree_on_order();
  ++rebuilds_;
}

/// Buckets as rank 0 wants them, and its count of rounds: ranks that come together may
/// have different pasts.
void Reducer::agree_on_order() {
  if (planned_order_.empty())
    planned_order_ = reversed_order(parameters_.size());
  std::vector<int> order = planned_order_;
  if (group().size() > 1) {
    const auto count = static_cast<int64_t>(order.size());
    const at::Tensor numbers =
        at::empty({2 + count}, at::TensorOptions().dtype(at::kLong));
    auto* values = numbers.mutable_data_ptr<int64_t>();
    values[0] = round_;
    values[1] = next_rebuild_;
    std::copy(order.begin(), order.end(), values + 2);
    comm::broadcast(comm_->group(), numbers, 0);
    round_ = values[0];
    next_rebuild_ = values[1];
    std::transform(values + 2, values + 2 + count, order.begin(), [](int64_t i) {
      return static_cast<int>(i);
    });
  }
  plan_buckets(order);
}

}  // namespace trireme::dp
