#include "trireme/dp/reducer.h"

#include <algorithm>
#include <utility>

#include "trireme/comm/collective.h"
#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/dp/riders.h"

namespace trireme::dp {

Reducer::Reducer(
    std::vector<Parameter> parameters,
    const comm::Group& group,
    DataParallelOptions options,
    Rounds rounds)
    : parameters_(std::move(parameters)),
      options_(std::move(options)),
      rounds_by_(rounds),
      graph_(options_.static_graph ? Graph::Counting : Graph::Changes) {
  check_parameters(parameters_);
  for (const Parameter& parameter : parameters_)
    sizes_.push_back(size_of(parameter));
  slots_.resize(parameters_.size());
  replace_group(group);
  hooks_ = std::make_unique<ReadyHooks>(parameters_, *this);
  self_->reducer = this;
}

Reducer::~Reducer() {
  const std::lock_guard lock(self_->mutex);
  self_->reducer = nullptr;
  before_give_back_ = {};  // whoever is called there goes as well
  if (rounds_by_ == Rounds::OfPasses)
    abandon("its model is gone");
}

void Reducer::replace_group(const comm::Group& group) {
  const auto count = static_cast<int64_t>(parameters_.size());
  const bool alone = group.size() == 1;
  uses_places_ = !alone || !options_.hooks.empty() || options_.norm ||
                 options_.check_finite || options_.reduction_dtype() ||
                 options_.mixed_precision.parameters;
  const RiderPlan riders{
      .active = alone ? 0 : group.size(),
      .weight = options_.reduction == Reduction::WeightedMean ? kCountElements : 0,
      .reached = options_.find_unused ? count : 0,
      .used = uses_places_ ? 1 : 0,
      .ends = alone ? 0 : kEndFlags};
  // What a failed round has left under way reads gradients of other ranks, which they
  // give up after the next call that all make.
  if (comm_)
    comm_->drain();
  // A thread and an order of calls of its own: the model may use the group as well.
  comm_ = std::make_unique<BucketComm>(
      group.split(0, group.rank()), parameters_, options_, riders);
  state_ = State::Idle;
  forget_pass();
  store_ = &autograd::grad_field();  // that of a failed pass may be gone
  reached_.clear();
  meets_ = false;
  for (Slot& slot : slots_)
    slot.used = false;
  agree_on_order();
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

size_t Reducer::bucket_of(size_t parameter) const {
  return static_cast<size_t>(gradients_->layout().places[parameter].bucket);
}

void Reducer::ready(size_t parameter) {
  if (rounds_by_ == Rounds::OfPasses)
    enter_pass();
  try {
    if (state_ == State::Idle || state_ == State::Failed)
      begin_pass();
    if (state_ != State::Idle && state_ != State::Failed)
      return count_down(parameter);
    autograd::GradientStore& store = store_of_pass();
    const at::Tensor& tensor = parameters_[parameter].tensor;
    slots_[parameter].used |= store.get(tensor).defined();
    // From its first gradient on the sum is in its place, in the dtype of that.
    if (sizes_[parameter].dtype != tensor.scalar_type())
      bring(parameter, store);
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
  const bool runs = state_ != State::Idle && state_ != State::Failed;
  if (rounds_by_ == Rounds::ByHand || runs)
    return;
  enter_pass();
  if (paused_ == 0)
    return open();
  // No round begins, but parameters that hold copies get their values back at its end.
  in_paused_pass_ = before_give_back_ && options_.mixed_precision.parameters;
}

/// A pass comes, or goes on. There is one at a time, since rounds of two would mix; it
/// is known by where it puts gradients, as it may change threads.
void Reducer::enter_pass() {
  autograd::GradientStore& store = store_of_pass();
  if (store_of_pass_.load() == &store)
    return;
  {
    const std::lock_guard lock(entry_);
    if (store_of_pass_.load() != nullptr)
      refuse_pass(store.name());
    store_of_pass_ = &store;
    name_of_pass_ = store.name();
  }
  const auto with = [self = self_, pass = ++pass_](const auto& call) {
    const std::lock_guard lock(self->mutex);
    if (self->reducer != nullptr && self->reducer->pass_ == pass)
      call(*self->reducer);
  };
  at_end_of_pass(
      [with] { with([](Reducer& reducer) { reducer.leave_pass(); }); },
      [with](const std::string& why) {
        with([&](Reducer& reducer) { reducer.leave_failed_pass(why); });
      });
}

void Reducer::forget_pass() {
  const std::lock_guard lock(self_->mutex);
  ++pass_;
  refused_ = false;
  store_of_pass_ = nullptr;
}

/// With entry_ held. The others must not take this rank's next round for that of the
/// refused pass.
void Reducer::refuse_pass(const std::string& name) {
  const InvalidArgument error(text(
      "[dp] expected one backward at a time over a model, got one into ",
      name,
      " on rank ",
      group().rank(),
      " while one into ",
      name_of_pass_,
      " runs; let each end before the next begins, in the same order on all ranks"));
  refused_ = true;
  comm_->fail(error.what());
  throw error;
}

void Reducer::leave_pass() {
  if (state_ == State::Open)
    end_pass();
  if (std::exchange(in_paused_pass_, false))
    before_give_back_();
  store_of_pass_ = nullptr;
}

void Reducer::leave_failed_pass(const std::string& why) noexcept {
  if (std::exchange(in_paused_pass_, false))
    put_back_after_failure();
  abandon(why);
  store_of_pass_ = nullptr;
}

void Reducer::put_back_after_failure() noexcept {
  try {
    if (before_give_back_)
      before_give_back_();
  } catch (const std::exception&) {
    // the first error counts
  }
}

void Reducer::abandon(const std::string& why) noexcept {
  if (state_ == State::Idle || state_ == State::Failed)
    return;
  state_ = State::Failed;
  try {
    if (!comm_->has_failed())
      comm_->fail(text(
          "[dp] the backward of rank ",
          group().rank(),
          " failed before all its gradients were there",
          why.empty() ? "" : ": ",
          why));
    comm_->drain();
  } catch (const std::exception&) {
    // the first error counts
  }
  put_back_after_failure();
}

void Reducer::open() {
  open(store_of_pass());
}

void Reducer::open(autograd::GradientStore& store) {
  begin(store, State::Open);
}

void Reducer::begin(autograd::GradientStore& store, State state) {
  if (state_ != State::Idle)
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
       .weight = state == State::Shadow ? 0 : weight_,
       .by_active = join_.divide_by_active,
       .values = values_});
  pending_.clear();
  for (const auto& bucket : buckets_)
    pending_.push_back(static_cast<int>(bucket.size()));
  order_.clear();
  next_ = 0;
  awaited_ = slots_.size();
  unexpected_ = false;
  state_ = state;
  for (Slot& slot : slots_) {
    slot.progress = Progress::Awaited;
    if (graph_ == Graph::Counting)
      slot.calls = 0;  // a failed pass may have counted some
    slot.waits = graph_ == Graph::Counted ? slot.calls : 1;
  }
  if (state == State::Shadow || graph_ == Graph::Counting)
    return;
  // Nothing is launched before a first gradient has come: it may be one of these.
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool comes = graph_ == Graph::Counted
                           ? slots_[i].calls > 0
                           : i >= reached_.size() || reached_[i] != 0 ||
                                 slots_[i].source == Source::Outside;
    if (!comes && slots_[i].source != Source::Finish)
      take(i, Progress::Absent);
  }
}

void Reducer::count_down(size_t parameter) {
  Slot& slot = slots_[parameter];
  const bool defined = store_->get(parameters_[parameter].tensor).defined();
  slot.used |= defined;
  if (slot.source == Source::Finish)
    return;
  if (graph_ == Graph::Counting) {
    ++slot.calls;
    return;
  }
  if (slot.progress == Progress::Awaited) {
    if (--slot.waits == 0) {
      take(parameter, Progress::Ready);
      launch_full();
    }
    return;
  }
  if (graph_ == Graph::Counted)
    refuse_another(parameter);
  if (slot.progress == Progress::Absent) {
    if (defined)
      take_unexpected(parameter);
    return;
  }
  if (next_ > bucket_of(parameter))
    refuse_another(parameter);
  take(parameter, Progress::Ready);
}

/// No output leads to it, but another graph does: a side loss. Its bucket may be left
/// out, so the others must hear of it.
void Reducer::take_unexpected(size_t parameter) {
  slots_[parameter].source = Source::Outside;  // waited for in later rounds
  const int last = comm_->last_dense();
  if (next_ > bucket_of(parameter) || (last >= 0 && next_ > static_cast<size_t>(last)))
    refuse_another(parameter);
  unexpected_ = true;
  take(parameter, Progress::Ready);
}

void Reducer::refuse_another(size_t parameter) const {
  const std::string& name = parameters_[parameter].name;
  if (graph_ == Graph::Counted)
    throw InvalidArgument(text(
        "[dp] expected the graph to stay as it was in the first backward, got another "
        "gradient for ",
        name,
        "; set static_graph to false"));
  throw InvalidArgument(text(
      "[dp] expected one gradient for ",
      name,
      " in a backward, got another one after its bucket was reduced: it is used "
      "outside of forward, or in two checkpointed blocks; set static_graph if every "
      "backward runs the same graph"));
}

/// A gradient is complete, or none will come; the pass may still add to it until its
/// bucket is launched.
void Reducer::take(size_t parameter, Progress progress) {
  put(parameter);
  const Progress before = std::exchange(slots_[parameter].progress, progress);
  if (progress == Progress::Ready && before != Progress::Ready)
    order_.push_back(static_cast<int>(parameter));
  if (before != Progress::Awaited)
    return;
  comm_->arrived(parameter);
  --awaited_;
  const size_t bucket = bucket_of(parameter);
  if (--pending_[bucket] == 0)
    comm_->times()[bucket].ready_ns = now_ns();
}

void Reducer::launch_full() {
  while (next_ < buckets_.size() && pending_[next_] == 0)
    launch(next_++, false);
}

void Reducer::launch(size_t bucket, bool now) {
  if (gradients_->bucket(bucket).defined())
    if (const std::vector<uint8_t> flags = flags_of(bucket); !flags.empty())
      comm_->write_riders(bucket, flags);
  if (now)
    comm_->run_now(bucket);
  else
    comm_->launch(bucket);
}

bool Reducer::is_reached(size_t parameter) const {
  const Slot& slot = slots_[parameter];
  if (slot.used || slot.source != Source::Outputs)
    return true;  // what an earlier pass of this window has brought counts as well
  switch (graph_) {
    case Graph::Counting:
      return false;  // all that comes is there
    case Graph::Counted:
      return slot.calls > 0;
    case Graph::Changes:
      return parameter >= reached_.size() || reached_[parameter] != 0;
  }
  return true;
}

std::vector<uint8_t> Reducer::flags_of(size_t bucket) {
  const RiderPlan& riders = comm_->riders();
  const bool active = state_ != State::Shadow;
  std::vector<uint8_t> flags;
  if (static_cast<int>(bucket) == comm_->first_dense()) {
    flags.resize(static_cast<size_t>(riders.active), 0);
    if (!flags.empty())
      flags[static_cast<size_t>(group().rank())] = active ? 1 : 0;
    if (riders.weight > 0)
      append_bits(flags, active ? weight_ : 0);
    for (size_t i = 0; i < static_cast<size_t>(riders.reached); ++i)
      flags.push_back(active && is_reached(i) ? 1 : 0);
  }
  if (riders.used > 0)
    for (const int i : buckets_[bucket])
      flags.push_back(slots_[static_cast<size_t>(i)].used ? 1 : 0);
  if (static_cast<int>(bucket) == comm_->last_dense() && riders.ends > 0) {
    flags.push_back(wants_rebuild() ? 1 : 0);
    flags.push_back(unexpected_ ? 1 : 0);
    flags.push_back(meets_ ? 1 : 0);
  }
  return flags;
}

void Reducer::end_pass() {
  try {
    if (refused_)
      throw InvalidArgument(
          "[dp] expected one backward at a time over a model, got another one "
          "meanwhile, whose error says which; let each end before the next begins");
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
  if (rounds_by_ == Rounds::OfPasses)
    state_ = State::Ending;
  if (awaited_ > 0)
    take_missing();
  if (state_ == State::Open)
    launch_full();
}

/// What the pass has not brought: a mistake, or nothing to reduce here.
void Reducer::take_missing() {
  std::vector<size_t> missing;
  std::vector<size_t> mistakes;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.progress != Progress::Awaited || slot.source == Source::Finish)
      continue;
    missing.push_back(i);
    const at::Tensor& tensor = parameters_[i].tensor;
    const bool in_window = slot.used && store_->get(tensor).defined();
    const bool expected =
        !tensor.requires_grad() ||  // frozen since
        graph_ == Graph::Counting ||
        (graph_ == Graph::Changes && (options_.find_unused || in_window));
    if (!expected && rounds_by_ == Rounds::OfPasses)
      mistakes.push_back(i);
  }
  check_missing(mistakes);
  for (const size_t i : missing)
    take(i, graph_ == Graph::Counting ? Progress::Ready : Progress::Absent);
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
    if (slots_[i].source == Source::Finish && slots_[i].progress == Progress::Awaited)
      take(i, Progress::Ready);
  TRIREME_ASSERT(awaited_ == 0);
  // Nothing is left to overlap with, so a change of threads would only cost.
  while (next_ < buckets_.size())
    launch(next_++, true);
  comm_->finish();
  if (before_give_back_)
    before_give_back_();
  give_back();
  if (graph_ == Graph::Counting)
    graph_ = Graph::Counted;
  stats_.end_ns = now_ns();
  stats_.buckets = comm_->times();
  end_round();
  if (join_.throw_on_early_end)
    check_early_end();
}

void Reducer::end_round() {
  const bool met = comm_->outcome().meet;
  ++round_;
  state_ = State::Idle;
  reached_.clear();
  meets_ = false;
  last_active_ = comm_->outcome().active;
  if (comm_->outcome().rebuild)
    rebuild();
  store_ = &autograd::grad_field();
  if (met && at_meeting_)
    at_meeting_();
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
  // What came in a window that never ended is lost with it.
  for (Slot& slot : slots_)
    slot.used = false;
  begin(autograd::grad_field(), State::Shadow);
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
      comm_->drain();
      state_ = State::Idle;
      return false;
    }
  }
  comm_->finish();
  end_round();
  return true;
}

void Reducer::leave_to_finish(const std::vector<at::Tensor>& leaves) {
  bool changed = false;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool late = std::any_of(leaves.begin(), leaves.end(), [&](const auto& leaf) {
      return leaf.is_same(parameters_[i].tensor);
    });
    const Source source = late ? Source::Finish : Source::Outputs;
    changed |= std::exchange(slots_[i].source, source) != source;
  }
  if (changed)
    plan_buckets(std::vector<int>(planned_order_));
}

void Reducer::keep_for_finish(autograd::GradientStore& store) {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].source == Source::Finish &&
        sizes_[i].dtype != parameters_[i].tensor.scalar_type())
      bring(i, store);
}

}  // namespace trireme::dp
