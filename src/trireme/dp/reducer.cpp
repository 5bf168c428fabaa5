#include "trireme/dp/reducer.h"

#include <algorithm>
#include <utility>

#include "trireme/comm/collective.h"
#include "trireme/core/error.h"
#include "trireme/dp/riders.h"

namespace trireme::dp {

Reducer::Reducer(
    std::vector<Parameter> parameters, const comm::Group& group, ReducerOptions options)
    : parameters_(std::move(parameters)), options_(std::move(options)) {
  check_parameters(parameters_);
  for (const Parameter& parameter : parameters_)
    sizes_.push_back(size_of(parameter));
  slots_.resize(parameters_.size());
  replace_group(group);
  hooks_ = std::make_unique<ReadyHooks>(parameters_, *this);
}

void Reducer::replace_group(const comm::Group& group) {
  const auto count = static_cast<int64_t>(parameters_.size());
  const bool alone = group.size() == 1;
  uses_places_ = !alone || !options_.hooks.empty() || options_.norm ||
                 options_.check_finite || options_.gradient_dtype ||
                 options_.mixed_precision;
  const RiderPlan riders{
      .active = alone ? 0 : group.size(),
      .weight = options_.reduction == Reduction::WeightedMean ? kCountElements : 0,
      .reached = options_.find_unused ? count : 0,
      .rebuild = alone ? 0 : 1,
      .used = uses_places_ ? count : 0};
  // What a failed round has left under way reads gradients of other ranks, which they
  // give up after the next call that all make.
  if (comm_)
    comm_->drain();
  // A thread and an order of calls of its own: the model may use the group as well.
  comm_ = std::make_unique<BucketComm>(
      group.split(0, group.rank()), parameters_, options_.hooks, riders);
  open_ = abandoned_ = false;
  store_ = &autograd::grad_field();  // that of a failed pass may be gone
  reached_.clear();
  for (Slot& slot : slots_)
    slot.used = slot.begun = false;
  plan_buckets(
      planned_order_.empty() ? reversed_order(parameters_.size())
                             : std::vector<int>(planned_order_));
}

void Reducer::set_weight(int64_t weight) {
  if (options_.reduction != Reduction::WeightedMean)
    throw InvalidArgument(
        "[dp] expected Reduction::WeightedMean for a weight, got another reduction; "
        "set the option");
  if (weight < 0 || weight >> kCountElements != 0)
    throw InvalidArgument(text(
        "[dp] expected a weight from 0 to 2^",
        kCountElements,
        ", got ",
        weight,
        "; give the number of samples or tokens"));
  weight_ = weight;
}

void Reducer::ready(size_t parameter) {
  try {
    if (!open_ || abandoned_)
      begin_pass();
    if (open_ && !abandoned_)
      return count_down(parameter);
    slots_[parameter].used |=
        store_of_pass().get(parameters_[parameter].tensor).defined();
    if (options_.gradient_dtype)
      widen(parameter);
  } catch (const PeerError&) {
    comm_->drain();
    throw;
  } catch (const std::exception& error) {
    comm_->fail(error.what());
    comm_->drain();
    throw;
  }
}

void Reducer::begin_pass() {
  if (options_.by_hand || (open_ && !abandoned_) || paused_ > 0)
    return;
  // A pass that fails drops what was to be called at its end.
  const std::shared_ptr<Reducer> end(this, [](Reducer* self) { self->abandon(); });
  open();
  at_end_of_pass([end] { end->end_pass(); });
}

void Reducer::abandon() noexcept {
  if (!open_ || std::exchange(abandoned_, true))
    return;
  try {
    if (!comm_->has_failed())
      comm_->fail(text(
          "[dp] the backward of rank ",
          group().rank(),
          " failed before all its gradients were there"));
    comm_->drain();
  } catch (const std::exception&) {
    // the first error counts
  }
  if (before_give_back_)
    before_give_back_();
}

void Reducer::open() {
  open(store_of_pass());
}

void Reducer::open(autograd::GradientStore& store) {
  if (open_)
    throw InvalidArgument(
        "[dp] expected the last round of gradients to have ended, got one that a "
        "failed backward has left open; renew the world's group and replace this "
        "one's");
  store_ = &store;
  if (!store.is_grad_field())
    leave_places(autograd::grad_field());
  stats_.round = round_;
  stats_.start_ns = now_ns();
  comm_->begin(
      {.round = round_,
       .reduction = options_.reduction,
       .weight = has_inputs_ ? weight_ : 0,
       .by_active = by_active_,
       .skip_unreached = options_.find_unused,
       .norm = options_.norm});
  pending_.clear();
  for (const auto& bucket : buckets_)
    pending_.push_back(static_cast<int>(bucket.size()));
  order_.clear();
  unset_.clear();
  next_ = 0;
  taken_ = 0;
  at_end_ = !has_inputs_;
  for (Slot& slot : slots_) {
    slot.calls =
        counts_calls() ? 0 : slot.calls;  // a failed pass may have counted some
    slot.waits = options_.static_graph && counted_ ? slot.calls : 1;
  }
  open_ = true;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool unreached = i < reached_.size() && reached_[i] == 0;
    if (slots_[i].late)
      continue;
    if (unreached || slots_[i].waits == 0) {
      slots_[i].waits = 0;
      take(i);
    }
  }
}

void Reducer::count_down(size_t parameter) {
  Slot& slot = slots_[parameter];
  slot.used |= store_->get(parameters_[parameter].tensor).defined();
  if (slot.late)
    return;
  if (counts_calls()) {
    ++slot.calls;
    return;
  }
  if (slot.waits > 0 && --slot.waits > 0)
    return;
  const auto bucket =
      static_cast<size_t>(gradients_->layout().places[parameter].bucket);
  if (next_ <= bucket && (slot.waits == 0 || !options_.static_graph))
    return take(parameter);
  const std::string& name = parameters_[parameter].name;
  if (options_.static_graph)
    throw InvalidArgument(text(
        "[dp] expected the graph to stay as it was in the first backward, got another "
        "gradient for ",
        name,
        "; set static_graph to false"));
  throw InvalidArgument(text(
      "[dp] expected one gradient for ",
      name,
      " in a backward, got another one after its bucket was reduced: it is used "
      "outside "
      "of forward, or in two checkpointed blocks; set static_graph if every backward "
      "runs the same graph"));
}

/// A gradient is complete; the pass may still add to it until its bucket is launched.
void Reducer::take(size_t parameter) {
  const bool again = slots_[parameter].waits < 0;
  put(parameter);
  if (again)
    return;
  slots_[parameter].waits = -1;
  comm_->arrived(parameter);
  ++taken_;
  order_.push_back(static_cast<int>(parameter));
  const auto bucket =
      static_cast<size_t>(gradients_->layout().places[parameter].bucket);
  if (--pending_[bucket] == 0) {
    comm_->times()[bucket].ready_ns = now_ns();
    if (!at_end_)
      launch_full();
  }
}

void Reducer::launch_full() {
  while (next_ < buckets_.size() && pending_[next_] == 0)
    launch(next_++, false);
}

void Reducer::launch(size_t bucket, bool now) {
  if (static_cast<int>(bucket) == comm_->first_dense() && comm_->riders().first() > 0)
    comm_->write_first(first_flags());
  if (static_cast<int>(bucket) == comm_->last_dense() && comm_->riders().last() > 0)
    comm_->write_last(last_flags());
  if (now)
    comm_->run_now(bucket);
  else
    comm_->launch(bucket);
}

std::vector<uint8_t> Reducer::first_flags() const {
  const RiderPlan& riders = comm_->riders();
  std::vector<uint8_t> flags(static_cast<size_t>(riders.active), 0);
  if (!flags.empty())
    flags[static_cast<size_t>(group().rank())] = has_inputs_ ? 1 : 0;
  if (riders.weight > 0)
    append_bits(flags, has_inputs_ ? weight_ : 0);
  if (riders.reached > 0) {
    const bool known = reached_.size() == parameters_.size();
    // What an earlier pass of this window has brought counts as well.
    for (size_t i = 0; i < parameters_.size(); ++i)
      flags.push_back(
          has_inputs_ && (!known || reached_[i] != 0 || slots_[i].used) ? 1 : 0);
  }
  return flags;
}

std::vector<uint8_t> Reducer::last_flags() {
  const RiderPlan& riders = comm_->riders();
  std::vector<uint8_t> flags;
  if (riders.rebuild > 0)
    flags.push_back(wants_rebuild() ? 1 : 0);
  if (riders.used > 0)
    for (const Slot& slot : slots_)
      flags.push_back(slot.used ? 1 : 0);
  return flags;
}

void Reducer::end_pass() {
  try {
    close();
    finish();
  } catch (const PeerError&) {
    comm_->drain();
    throw;
  } catch (const EarlyEnd&) {
    throw;  // every rank has its own
  } catch (const std::exception& error) {
    comm_->fail(error.what());
    comm_->drain();
    throw;
  }
}

void Reducer::close() {
  stats_.backward_end_ns = now_ns();
  at_end_ = !options_.by_hand;
  if (counts_calls())
    for (Slot& slot : slots_)
      slot.waits = 0;
  if (taken_ < slots_.size())
    take_missing();
}

/// What the pass has not brought: a mistake, or nothing to reduce here.
void Reducer::take_missing() {
  std::vector<size_t> missing;
  std::vector<size_t> mistakes;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.waits < 0 || slot.late)
      continue;
    missing.push_back(i);
    const bool expected =
        !parameters_[i].tensor.requires_grad() ||  // frozen since
        (options_.static_graph ? slot.waits == 0 : options_.find_unused || slot.used);
    if (!expected && !options_.by_hand)
      mistakes.push_back(i);
  }
  check_missing(mistakes);
  for (const size_t i : missing) {
    slots_[i].waits = 0;
    take(i);
  }
}

void Reducer::check_missing(const std::vector<size_t>& missing) {
  std::vector<std::string> names;
  for (const size_t i : missing)
    if (exemptions_ == nullptr || options_.static_graph ||
        !exemptions_->is_exempt(hooks_->node(i).get()))
      names.push_back(parameters_[i].name);
  if (names.empty())
    return;
  if (options_.static_graph)
    throw InvalidArgument(text(
        "[dp] expected the graph to stay as it was in the first backward, got no "
        "gradient on rank ",
        group().rank(),
        " for ",
        list_names(names),
        "; set find_unused instead of static_graph"));
  throw InvalidArgument(text(
      "[dp] expected a gradient for every parameter, got none on rank ",
      group().rank(),
      " for ",
      list_names(names),
      "; set find_unused if the loss does not always need them, or name them in "
      "ignore"));
}

void Reducer::finish() {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].late && slots_[i].waits >= 0) {
      slots_[i].waits = 0;
      take(i);
    }
  TRIREME_ASSERT(taken_ == slots_.size());
  // Nothing is left to overlap with, so a change of threads would only cost.
  while (next_ < buckets_.size())
    launch(next_++, true);
  comm_->finish();
  if (before_give_back_)
    before_give_back_();
  give_back();
  counted_ = true;
  stats_.end_ns = now_ns();
  stats_.buckets = comm_->times();
  ++round_;
  open_ = false;
  reached_.clear();
  if (comm_->outcome().rebuild)
    rebuild();
  store_ = &autograd::grad_field();
  last_active_ = comm_->outcome().active;
  if (throws_on_early_end_)
    check_early_end();
}

void Reducer::check_early_end() const {
  std::vector<int> out_of_inputs;
  for (size_t rank = 0; rank < last_active_.size(); ++rank)
    if (last_active_[rank] == 0)
      out_of_inputs.push_back(static_cast<int>(rank));
  if (!out_of_inputs.empty())
    throw EarlyEnd(text(
        "[dp] expected inputs on all ranks, got none on ",
        comm::rank_list(out_of_inputs),
        "; give all ranks the same number of batches, or set throw_on_early_end to "
        "false"));
}

bool Reducer::shadow() {
  has_inputs_ = false;
  const struct Restore {
    bool& value;
    ~Restore() { value = true; }
  } restore{has_inputs_};
  // What came in a window that never ended is lost with it.
  for (Slot& slot : slots_)
    slot.used = slot.begun = false;
  open();
  for (size_t i = 0; i < slots_.size(); ++i) {
    gradients_->clear(i);
    comm_->arrived(i);
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    next_ = b + 1;
    launch(b, true);
    const auto& active = comm_->outcome().active;
    if (static_cast<int>(b) == comm_->first_dense() &&
        std::all_of(active.begin(), active.end(), [](int64_t n) { return n == 0; })) {
      open_ = false;
      return false;
    }
  }
  comm_->finish();
  open_ = false;
  ++round_;
  last_active_ = comm_->outcome().active;
  if (comm_->outcome().rebuild)
    rebuild();
  return true;
}

void Reducer::leave_to_finish(const std::vector<at::Tensor>& leaves) {
  bool changed = false;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool late = std::any_of(leaves.begin(), leaves.end(), [&](const auto& leaf) {
      return leaf.is_same(parameters_[i].tensor);
    });
    changed |= std::exchange(slots_[i].late, late) != late;
  }
  if (changed)
    plan_buckets(std::vector<int>(planned_order_));
}

}  // namespace trireme::dp
