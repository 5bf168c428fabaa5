// Where gradients lie, and the order of buckets; the rest of Reducer is in reducer.cpp.
#include <algorithm>
#include <utility>

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
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
  const bool widens =
      options_.gradient_dtype && c10::isFloatingType(own) && !parameter.sparse;
  return {
      .elements = parameter.tensor.numel(),
      .dtype = widens ? *options_.gradient_dtype : own,
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

/// Brings a complete gradient to its place.
void Reducer::put(size_t parameter) {
  if (!uses_places_)
    return;
  const at::Tensor& tensor = parameters_[parameter].tensor;
  if (parameters_[parameter].sparse) {
    comm_->set_sparse(
        static_cast<size_t>(gradients_->layout().places[parameter].bucket),
        store_->get(tensor));
    unset_.push_back(parameter);
    if (options_.check_finite)
      check_finite(parameter);
    return;
  }
  if (sizes_[parameter].dtype != tensor.scalar_type()) {
    widen(parameter);
    if (!slots_[parameter].begun)
      gradients_->clear(parameter);
    unset_.push_back(parameter);
  } else if (const at::Tensor gradient = store_->get(tensor); !gradient.defined()) {
    gradients_->clear(parameter);
    unset_.push_back(parameter);
  } else if (!gradients_->holds(parameter, gradient)) {
    gradients_->put(parameter, gradient);
    store_->set(tensor, gradients_->view(parameter));
    // The parameter has another dtype when the round is over.
    if (options_.mixed_precision)
      unset_.push_back(parameter);
  }
  if (options_.check_finite)
    check_finite(parameter);
}

/// Adds the gradient to its sum in another dtype, which holds all since the last round.
void Reducer::widen(size_t parameter) {
  autograd::GradientStore& store = open_ ? *store_ : store_of_pass();
  const at::Tensor& tensor = parameters_[parameter].tensor;
  const at::Tensor gradient = store.get(tensor);
  if (!gradient.defined() || sizes_[parameter].dtype == tensor.scalar_type())
    return;
  const at::Tensor& sum = gradients_->view(parameter);
  if (slots_[parameter].begun)
    sum.add_(gradient.detach());
  else
    sum.copy_(gradient.detach());
  slots_[parameter].begun = true;
  store.set(tensor, {});
}

void Reducer::check_finite(size_t parameter) {
  const at::Tensor gradient = parameters_[parameter].sparse
                                  ? store_->get(parameters_[parameter].tensor)
                                  : gradients_->view(parameter);
  if (!gradient.defined())
    return;
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

/// After the round: gradients that are not in `.grad` yet go there.
void Reducer::give_back() {
  const std::vector<int64_t>& used = comm_->outcome().used;
  for (const size_t i : unset_) {
    const auto bucket = static_cast<size_t>(gradients_->layout().places[i].bucket);
    const at::Tensor rows =
        parameters_[i].sparse ? comm_->sparse_result(bucket) : at::Tensor();
    // Rows may come after the last dense bucket, and after what rode on it.
    const bool has_rows = rows.defined() && (!rows.is_sparse() || rows._nnz() > 0);
    // Nobody has a gradient for it: it stays as it was, so that optimizers skip it.
    if (!used.empty() && used[i] == 0 && !slots_[i].begun && !has_rows)
      continue;
    const at::Tensor& tensor = parameters_[i].tensor;
    if (!tensor.requires_grad())
      continue;
    if (parameters_[i].sparse)
      store_->set(tensor, rows);
    else if (sizes_[i].dtype != tensor.scalar_type())
      store_->set(tensor, gradients_->view(i).to(tensor.scalar_type()));
    else
      store_->set(tensor, gradients_->view(i));
  }
  for (const size_t i : comm_->outcome().dropped)
    store_->set(parameters_[i].tensor, {});
  for (Slot& slot : slots_)
    slot.used = slot.begun = false;
  if (!store_->is_grad_field())
    leave_places(*store_);
  versions_.clear();
  for (size_t i = 0; options_.norm && i < parameters_.size(); ++i) {
    const at::Tensor gradient = store_->get(parameters_[i].tensor);
    versions_.push_back(gradient.defined() ? gradient._version() : -1);
  }
}

bool Reducer::is_as_reduced(size_t parameter) const {
  const at::Tensor gradient = store_->get(parameters_[parameter].tensor);
  const auto bucket =
      static_cast<size_t>(gradients_->layout().places[parameter].bucket);
  return parameter < versions_.size() && gradient.defined() &&
         gradient._version() == versions_[parameter] &&
         (stats_.buckets.size() <= bucket || !stats_.buckets[bucket].skipped);
}

void Reducer::plan_buckets(const std::vector<int>& order) {
  planned_order_ = order;
  buckets_ = make_buckets(sizes_, order, options_.limits, [this](int i) {
    return slots_[static_cast<size_t>(i)].late;
  });
  auto next = std::make_unique<FlatGradients>(
      lay_out(sizes_, buckets_, comm_->riders().first(), comm_->riders().last()),
      parameters_,
      comm_->group());
  for (size_t i = 0; gradients_ && i < parameters_.size(); ++i) {
    const at::Tensor gradient = store_->get(parameters_[i].tensor);
    if (slots_[i].begun)
      next->put(i, gradients_->view(i));
    if (gradient.defined() && gradients_->holds(i, gradient)) {
      next->put(i, gradient);
      store_->set(parameters_[i].tensor, next->view(i));
    }
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
  if (!options_.rebuild || !has_inputs_ || group().rank() != 0 ||
      round_ < next_rebuild_ || counts_calls() || order_ == planned_order_)
    return false;
  wanted_order_ = order_of_round();
  const Buckets wanted =
      make_buckets(sizes_, wanted_order_, options_.limits, [this](int i) {
        return slots_[static_cast<size_t>(i)].late;
      });
  return drift(sizes_, buckets_, wanted) > kDriftThatMatters;
}

/// All ranks are at the end of a round here, so nobody waits long.
void Reducer::rebuild() {
  at::Tensor order = at::empty(
      {static_cast<int64_t>(slots_.size())}, at::TensorOptions().dtype(at::kInt));
  if (group().rank() == 0)
    std::copy(
        wanted_order_.begin(), wanted_order_.end(), order.mutable_data_ptr<int>());
  comm::broadcast(comm_->group(), order, 0);
  const int* begin = order.const_data_ptr<int>();
  plan_buckets(std::vector<int>(begin, begin + order.numel()));
  ++rebuilds_;
  next_rebuild_ = 2 * round_;
}

}  // namespace trireme::dp
