#include "trireme/dp/replica.h"

#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include "trireme/comm/agree.h"
#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/core/log.h"
#include "trireme/dp/verify.h"

namespace trireme::dp {
namespace {

/// Whether a module's weight gets gradients that list rows.
bool has_sparse_weight(const torch::nn::Module& module) {
  if (const auto* embedding = module.as<torch::nn::Embedding>())
    return embedding->options.sparse();
  if (const auto* bag = module.as<torch::nn::EmbeddingBag>())
    return bag->options.sparse();
  return false;
}

bool is_named(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// The options of the reducer of what `delay` names.
DataParallelOptions delayed_options(DataParallelOptions options) {
  options.static_graph = options.find_unused = false;
  options.hooks = {};  // they keep state by number, and these have others
  return options;
}

std::string lost_step(const std::vector<std::string>& names) {
  return text(
      "expected the optimizer to step full parameters, got a step on copies of ",
      list_names(names),
      ", which is lost: with mixed_precision they are in place from a forward to the "
      "end of the next backward; step right after backward, and look at outputs under "
      "torch::NoGradGuard");
}

}  // namespace

Replica::Replica(
    torch::nn::Module& module, const comm::Group& group, DataParallelOptions options)
    : module_(module),
      options_(std::move(options)),
      reducer_([&] {
        comm::check_everywhere(group, {.module = "dp"}, [&] {
          check_module_options(options_, group);
          check_parameters(parameters(false));
          parameters(true);
        });
        if (options_.init_sync)
          verify(group);
        return std::make_unique<Reducer>(parameters(false), group, options_);
      }()),
      watch_(*reducer_) {
  if (!options_.delay.empty())
    delayed_ = std::make_unique<Reducer>(
        parameters(true), group, delayed_options(options_), Rounds::ByHand);
  for (Parameter& parameter : kept_parameters())
    if (!parameter.tensor.requires_grad())
      frozen_.push_back(std::move(parameter));
  if (const auto dtype = options_.mixed_precision.buffers)
    for (const auto& [name, buffer] : buffers())
      if (c10::isFloatingType(buffer.scalar_type()))
        buffer.set_data(buffer.to(*dtype));
  reducer_->set_before_give_back([this] { end_low_precision(); });
  // One of several forwards whose backwards come one after the other: the first of
  // those has put full values back.
  watch_.set_before_backward([this] {
    if (!low_ && !reducer_->is_open())
      begin_low_precision(make_copies());
  });
  reducer_->set_at_meeting([this] { sync_buffers(); });
  if (options_.init_sync)
    broadcast_state(0);
}

Replica::~Replica() {
  if (low_ && !low_->changed().empty())
    TRIREME_LOG(warn, "dp") << lost_step(low_->changed());
}

std::string Replica::module_name() const {
  return module_.name();
}

std::vector<Parameter> Replica::all_parameters() const {
  std::vector<Parameter> all;
  for (const auto& module : module_.named_modules()) {
    const bool sparse = has_sparse_weight(*module.value());
    for (const auto& parameter : module.value()->named_parameters(false)) {
      const std::string name = module.key().empty()
                                   ? parameter.key()
                                   : text(module.key(), ".", parameter.key());
      all.push_back({name, parameter.value(), sparse});
    }
  }
  return all;
}

/// Everything that a forward uses, frozen or not.
std::vector<Parameter> Replica::kept_parameters() const {
  std::vector<Parameter> all = all_parameters();
  std::erase_if(all, [this](const Parameter& parameter) {
    return is_named(options_.ignore, parameter.name);
  });
  return all;
}

/// The same with their full values, whatever they compute with.
std::vector<Parameter> Replica::full_parameters() const {
  std::vector<Parameter> all = kept_parameters();
  for (Parameter& parameter : all)
    if (low_)
      parameter.tensor = low_->full(parameter.tensor);
  return all;
}

/// Those that every backward reduces, or those that wait for reduce_delayed().
std::vector<Parameter> Replica::parameters(bool delayed) const {
  const auto& delay = options_.delay;
  std::vector<Parameter> chosen;
  for (Parameter& parameter : trained_parameters(all_parameters(), options_.ignore))
    if (is_named(delay, parameter.name) == delayed)
      chosen.push_back(std::move(parameter));
  if (delayed && chosen.size() != delay.size())
    throw InvalidArgument(text(
        "[dp] expected names of trained parameters to delay, each once, got ",
        list_names(delay),
        "; correct the list"));
  if (!delayed && chosen.empty())
    throw InvalidArgument(
        "[dp] expected at least one parameter that is reduced by backward, got all of "
        "them delayed; reduce the gradients with comm::all_reduce() instead");
  return chosen;
}

NamedBuffers Replica::buffers() const {
  NamedBuffers all;
  for (const auto& buffer : module_.named_buffers())
    if (buffer.value().defined() && !is_named(options_.ignore, buffer.key()))
      all.emplace_back(buffer.key(), buffer.value());
  return all;
}

void Replica::verify(const comm::Group& group) const {
  std::vector<std::string> lines;
  const auto parameters = trained_parameters(all_parameters(), options_.ignore);
  lines.push_back(text(parameters.size(), " parameters that need a gradient"));
  for (const Parameter& parameter : parameters)
    lines.push_back(describe(parameter));
  for (const Parameter& parameter : kept_parameters())
    if (!parameter.tensor.requires_grad())
      lines.push_back(text("frozen ", describe(parameter)));
  for (const auto& [name, buffer] : buffers())
    lines.push_back(text("buffer ", describe({name, buffer})));
  for (std::string& line : option_lines(options_))
    lines.push_back(std::move(line));
  verify_same(group, "model and options", lines);
}

bool Replica::trains() const {
  return module_.is_training() && c10::GradMode::is_enabled();
}

void Replica::check_current() const {
  const auto& parameters = reducer_->parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].tensor.requires_grad() &&
        !reducer_->hooks().is_current(i, parameters[i].tensor))
      throw InvalidArgument(text(
          "[dp] expected parameters to stay as they were when the model was wrapped, "
          "got other data in ",
          parameters[i].name,
          "; move or convert the model first, then wrap it and make the optimizer"));
}

void Replica::check_frozen() const {
  check_still_frozen(frozen_, "when the model was wrapped", "wrap the model");
}

/// Gradients that were dropped without a reduction may have made a step before.
void Replica::check_delayed() {
  if (!delayed_ || warned_of_delayed_)
    return;
  for (size_t i = 0; i < delayed_->parameters().size(); ++i)
    if (delayed_->is_unreduced(i) &&
        !delayed_->parameters()[i].tensor.grad().defined()) {
      warned_of_delayed_ = true;
      TRIREME_LOG(warn, "dp") << "expected reduce_delayed() before the gradient of "
                              << delayed_->parameters()[i].name
                              << " is cleared, got none: if an optimizer has used it, "
                                 "the ranks differ now; "
                                 "call it after backward";
      return;
    }
}

std::unique_ptr<LowPrecisionScope> Replica::make_copies() const {
  const auto dtype = options_.mixed_precision.parameters;
  return dtype ? std::make_unique<LowPrecisionScope>(kept_parameters(), *dtype)
               : nullptr;
}

void Replica::begin_low_precision(std::unique_ptr<LowPrecisionScope> low) {
  low_ = std::move(low);
  if (options_.hooks.empty())
    return;
  std::vector<at::Tensor> values;
  for (const Parameter& parameter : reducer_->parameters())
    values.push_back(low_->full(parameter.tensor));
  reducer_->set_values(std::move(values));
}

void Replica::end_low_precision() {
  const auto lost = low_ ? low_->changed() : std::vector<std::string>();
  low_.reset();
  reducer_->set_values({});
  if (!lost.empty())
    throw InvalidArgument(text("[dp] ", lost_step(lost)));
}

/// Where copies stay, they must be as they were made.
void Replica::check_copies() {
  if (low_ && !low_->changed().empty())
    end_low_precision();
}

std::unique_ptr<LowPrecisionScope> Replica::before_forward() {
  if (reducer_->is_open())
    throw InvalidArgument(text(
        "[dp] expected the last backward to have ended, got one that ",
        reducer_->has_failed()
            ? "failed half way; renew the world's group and call replace_group()"
            : "still runs; let it end before the next forward"));
  check_copies();
  std::unique_ptr<LowPrecisionScope> low = low_ ? nullptr : make_copies();
  if (low)
    for (Reducer* each : {reducer_.get(), delayed_.get()})
      if (each != nullptr)
        each->hooks().follow(each->parameters());
  if (!trains())
    return low;
  // The graph of this forward saves them: until its backward has ended, and through
  // others before that.
  if (low)
    begin_low_precision(std::move(low));
  check_current();
  check_frozen();
  check_delayed();
  if (joins_)
    ask_for_buffers();
  else
    keep_equal();
  buffers_equal_ = false;  // until they are made so after the forward that comes now
  return nullptr;
}

/// In a join: a rank without inputs has no forward to make buffers equal in, so all do
/// it at the end of the round.
void Replica::ask_for_buffers() {
  if (options_.buffers.mode != BufferMode::Off && !reducer_->is_paused() &&
      !buffers().empty())
    reducer_->meet();
}

/// Once for each round: a rank that only evaluates in between does not hang the others.
void Replica::keep_equal() {
  const bool due = reducer_->rounds() > buffers_round_ && !reducer_->is_paused() &&
                   !options_.buffers.after_forward;
  if (due)
    sync_buffers();
  if (options_.check_replicas_every == 0 ||
      reducer_->rounds() - checked_round_ < options_.check_replicas_every)
    return;
  checked_round_ = reducer_->rounds();
  std::vector<Parameter> values = full_parameters();
  const BufferMode mode = options_.buffers.mode;
  if (buffers_equal_ && (mode == BufferMode::Broadcast || mode == BufferMode::Average))
    for (const auto& [name, buffer] : buffers())
      values.push_back({name, buffer});
  verify_equal_values(group(), values);
}

at::Tensor Replica::cast_input(const at::Tensor& input) const {
  const auto dtype = options_.mixed_precision.parameters;
  return dtype ? cast_floating(input, *dtype) : input;
}

void Replica::begin_watch() {
  watch_.begin_forward(low_ != nullptr);
}

void Replica::end_watch() {
  watch_.end_forward();
  if (options_.buffers.after_forward && trains() && !reducer_->is_paused())
    sync_buffers();
}

/// Of ranks that still have inputs: what the others have is old.
int Replica::buffer_source() const {
  const auto& active = reducer_->last_active();
  const int wanted = options_.buffers.source;
  if (active.empty() || active[static_cast<size_t>(wanted)] > 0)
    return wanted;
  const auto found = std::find_if(
      active.rbegin(), active.rend(), [](int64_t count) { return count > 0; });
  return found == active.rend() ? wanted : static_cast<int>(active.rend() - found) - 1;
}

void Replica::sync_buffers() {
  buffers_round_ = reducer_->rounds();
  buffers_equal_ = true;
  const NamedBuffers all = buffers();
  if (all.empty())
    return;
  std::vector<at::Tensor> tensors;
  for (const auto& [name, buffer] : all)
    tensors.push_back(buffer);
  switch (options_.buffers.mode) {
    case BufferMode::Off:
      return;
    case BufferMode::Broadcast:
      return broadcast_values(group(), tensors, buffer_source());
    case BufferMode::Average:
      return average_values(group(), tensors);
    case BufferMode::Hook:
      return options_.buffers.hook(group(), all);
  }
}

void Replica::broadcast_state(int source) {
  check_copies();
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : full_parameters())
    tensors.push_back(parameter.tensor);
  for (const auto& [name, buffer] : buffers())
    tensors.push_back(buffer);
  broadcast_values(group(), tensors, source);
  buffers_equal_ = true;
  if (low_)
    low_->refresh();
}

void Replica::check_replicas() const {
  verify_equal_values(group(), full_parameters());
}

void Replica::replace_group(const comm::Group& group) {
  check_copies();
  comm::check_everywhere(
      group, {.module = "dp"}, [&] { check_module_options(options_, group); });
  if (options_.init_sync)
    verify(group);
  reducer_->replace_group(group);
  if (delayed_)
    delayed_->replace_group(group);
  buffers_round_ = checked_round_ = reducer_->rounds();
  broadcast_state(0);
}

void Replica::reduce_delayed() {
  if (!delayed_)
    throw InvalidArgument(
        "[dp] expected parameters in `delay` to reduce, got none; name them in the "
        "options");
  delayed_->open();
  delayed_->close();
  delayed_->finish();
}

void Replica::begin_join(const JoinOptions& options) {
  if (options_.buffers.after_forward && options_.buffers.mode != BufferMode::Off &&
      !buffers().empty())
    throw NotSupported(
        "[dp] expected buffers that are made equal before forward for a join, got "
        "after_forward; leave it out, since ranks without inputs have no forward");
  const auto& parameters = reducer_->parameters();
  if (std::all_of(parameters.begin(), parameters.end(), [](const Parameter& parameter) {
        return parameter.sparse;
      }))
    throw NotSupported(
        "[dp] expected a parameter with dense gradients for a join, since what ranks "
        "have to know rides on those, got sparse ones only; add a dense one");
  if (delayed_)
    throw NotSupported(
        "[dp] expected no parameters in `delay` for a join, got some; ranks without "
        "inputs do not call reduce_delayed(), so reduce them in backward");
  reducer_->set_join(options);
  joins_ = true;
  if (reducer_->rounds() > buffers_round_)
    sync_buffers();  // for the first forward; later ones find them equal
}

bool Replica::shadow_step() {
  return reducer_->shadow();
}

/// The rank that had inputs to the end has the newest values.
void Replica::all_joined() {
  const auto& active = reducer_->last_active();
  const auto last = std::find_if(
      active.rbegin(), active.rend(), [](int64_t count) { return count > 0; });
  if (last != active.rend())
    broadcast_state(static_cast<int>(active.rend() - last) - 1);
  buffers_round_ = reducer_->rounds();
}

void Replica::end_join() {
  reducer_->set_join({});
  joins_ = false;
}

}  // namespace trireme::dp
