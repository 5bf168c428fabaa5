#include "trireme/dp/replica.h"

#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include "trireme/core/error.h"
#include "trireme/dp/verify.h"

namespace trireme::dp {
namespace {

BucketLimits limits_of(const DataParallelOptions& options) {
  BucketLimits limits;
  limits.bytes = options.bucket_bytes_list;
  if (limits.bytes.empty())
    limits.bytes = {
        std::min(options.first_bucket_bytes, options.bucket_bytes),
        options.bucket_bytes};
  if (std::find(limits.bytes.begin(), limits.bytes.end(), size_t{0}) !=
      limits.bytes.end())
    throw InvalidArgument(
        "[dp] expected buckets of at least one byte, got a limit of 0; give bytes, not "
        "mebibytes");
  return limits;
}

ReducerOptions reducer_options(const DataParallelOptions& options) {
  return {
      .limits = limits_of(options),
      .reduction = options.reduction,
      .find_unused = options.find_unused,
      .static_graph = options.static_graph,
      .rebuild = options.rebuild,
      .gradient_dtype = options.mixed_precision.reduction
                            ? options.mixed_precision.reduction
                            : options.gradient_dtype,
      .check_finite = options.check_finite,
      .norm = options.norm,
      .hooks = options.hooks,
      .mixed_precision = options.mixed_precision.parameters.has_value()};
}

std::string dtype_text(const std::optional<c10::ScalarType>& dtype) {
  return dtype ? c10::toString(*dtype) : "-";
}

/// Whether a module's weight gets gradients that list rows.
bool has_sparse_weight(const torch::nn::Module& module) {
  if (const auto* embedding = module.as<torch::nn::Embedding>())
    return embedding->options.sparse();
  if (const auto* bag = module.as<torch::nn::EmbeddingBag>())
    return bag->options.sparse();
  return false;
}

/// What is never trained, but must be equal all the same.
std::vector<Parameter> frozen_parameters(
    const std::vector<Parameter>& all, const std::vector<std::string>& ignore) {
  std::vector<Parameter> frozen;
  for (const Parameter& parameter : all)
    if (!parameter.tensor.requires_grad() &&
        std::find(ignore.begin(), ignore.end(), parameter.name) == ignore.end())
      frozen.push_back(parameter);
  return frozen;
}

void check_options(const DataParallelOptions& options, const comm::Group& group) {
  if (options.buffers.mode == BufferMode::Hook && !options.buffers.hook)
    throw InvalidArgument(
        "[dp] expected a function for BufferMode::Hook, got none; set buffers.hook");
  limits_of(options);
  if (options.buffers.source < 0 || options.buffers.source >= group.size())
    throw InvalidArgument(text(
        "[dp] expected buffers from a rank below ",
        group.size(),
        ", got ",
        options.buffers.source,
        "; correct buffers.source"));
}

}  // namespace

Replica::Replica(
    torch::nn::Module& module, const comm::Group& group, DataParallelOptions options)
    : module_(module),
      options_(std::move(options)),
      reducer_([&] {
        check_everywhere(group, [&] {
          check_options(options_, group);
          check_parameters(parameters(false));
          parameters(true);
        });
        if (options_.init_sync)
          verify(group);
        return std::make_unique<Reducer>(
            parameters(false), group, reducer_options(options_));
      }()),
      watch_(*reducer_) {
  if (!options_.delay.empty()) {
    ReducerOptions by_hand = reducer_options(options_);
    by_hand.by_hand = true;
    by_hand.static_graph = false;
    by_hand.hooks = {};  // they keep state by number, and these have others
    delayed_ = std::make_unique<Reducer>(parameters(true), group, by_hand);
  }
  if (const auto dtype = options_.mixed_precision.buffers)
    for (const auto& [name, buffer] : buffers())
      if (c10::isFloatingType(buffer.scalar_type()))
        buffer.set_data(buffer.to(*dtype));
  reducer_->set_before_give_back([this] { low_.reset(); });
  if (options_.init_sync)
    broadcast_state(0);
}

Replica::~Replica() = default;

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

/// Those that every backward reduces, or those that wait for reduce_delayed().
std::vector<Parameter> Replica::parameters(bool delayed) const {
  const auto& delay = options_.delay;
  std::vector<Parameter> chosen;
  for (Parameter& parameter : trained_parameters(all_parameters(), options_.ignore)) {
    const bool is_delayed =
        std::find(delay.begin(), delay.end(), parameter.name) != delay.end();
    if (is_delayed == delayed)
      chosen.push_back(std::move(parameter));
  }
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
  const auto& ignore = options_.ignore;
  for (const auto& buffer : module_.named_buffers())
    if (buffer.value().defined() &&
        std::find(ignore.begin(), ignore.end(), buffer.key()) == ignore.end())
      all.emplace_back(buffer.key(), buffer.value());
  return all;
}

void Replica::verify(const comm::Group& group) const {
  std::vector<std::string> lines;
  const auto parameters = trained_parameters(all_parameters(), options_.ignore);
  lines.push_back(text(parameters.size(), " parameters that need a gradient"));
  for (const Parameter& parameter : parameters)
    lines.push_back(describe(parameter));
  for (const Parameter& parameter :
       frozen_parameters(all_parameters(), options_.ignore))
    lines.push_back(text("frozen ", describe(parameter)));
  for (const auto& [name, buffer] : buffers())
    lines.push_back(text("buffer ", describe({name, buffer})));
  lines.push_back(text(
      "options: reduction ",
      static_cast<int>(options_.reduction),
      ", find_unused ",
      options_.find_unused,
      ", static_graph ",
      options_.static_graph,
      ", rebuild ",
      options_.rebuild,
      ", buffers ",
      static_cast<int>(options_.buffers.mode),
      ", after_forward ",
      options_.buffers.after_forward,
      ", source ",
      options_.buffers.source,
      ", gradient_dtype ",
      dtype_text(options_.gradient_dtype),
      ", mixed precision ",
      dtype_text(options_.mixed_precision.parameters),
      " ",
      dtype_text(options_.mixed_precision.reduction),
      " ",
      dtype_text(options_.mixed_precision.buffers),
      ", check_replicas_every ",
      options_.check_replicas_every));
  for (const size_t bytes : limits_of(options_).bytes)
    lines.push_back(text("options: bucket limit ", bytes));
  for (const auto& hook : options_.hooks)
    lines.push_back(text("hook ", hook->name()));
  for (const std::string& name : options_.delay)
    lines.push_back(text("delayed ", name));
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

std::unique_ptr<LowPrecisionScope> Replica::before_forward() {
  if (reducer_->is_open())
    throw InvalidArgument(
        "[dp] expected the last backward to have ended, got one that failed half way; "
        "renew the world's group and call replace_group()");
  std::unique_ptr<LowPrecisionScope> low;
  if (const auto dtype = options_.mixed_precision.parameters; dtype && !low_) {
    low = std::make_unique<LowPrecisionScope>(computed_with(), *dtype);
    reducer_->hooks().follow(reducer_->parameters());
  }
  if (!trains())
    return low;
  // The graph of this forward saves them: until its backward has ended, and through
  // others before that.
  if (low)
    low_ = std::move(low);
  check_current();
  // Once for each round: a rank that only evaluates in between does not hang the
  // others.
  const bool due = reducer_->rounds() > buffers_round_ && !reducer_->is_paused();
  if (due && !options_.buffers.after_forward)
    sync_buffers();
  if (options_.check_replicas_every > 0 && !joins_ &&
      reducer_->rounds() - checked_round_ >= options_.check_replicas_every) {
    checked_round_ = reducer_->rounds();
    check_replicas();
  }
  return nullptr;
}

/// Everything that a forward uses, frozen or not.
std::vector<Parameter> Replica::computed_with() const {
  std::vector<Parameter> all;
  for (Parameter& parameter : all_parameters())
    if (std::find(options_.ignore.begin(), options_.ignore.end(), parameter.name) ==
        options_.ignore.end())
      all.push_back(std::move(parameter));
  return all;
}

at::Tensor Replica::cast_input(const at::Tensor& input) const {
  const auto dtype = options_.mixed_precision.parameters;
  return dtype ? cast_floating(input, *dtype) : input;
}

void Replica::begin_watch() {
  watch_.begin_forward();
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
  const NamedBuffers all = buffers();
  if (!all.empty())
    dp::sync_buffers(group(), all, options_.buffers, buffer_source());
}

void Replica::broadcast_state(int source) {
  std::vector<at::Tensor> tensors;
  for (const bool delayed : {false, true})
    if (!delayed || delayed_)
      for (const Parameter& parameter : parameters(delayed))
        tensors.push_back(parameter.tensor);
  for (const Parameter& parameter :
       frozen_parameters(all_parameters(), options_.ignore))
    tensors.push_back(parameter.tensor);
  for (const auto& [name, buffer] : buffers())
    tensors.push_back(buffer);
  broadcast_values(group(), tensors, source);
}

void Replica::check_replicas() const {
  verify_equal_values(group(), reducer_->parameters());
}

void Replica::replace_group(const comm::Group& group) {
  check_everywhere(group, [&] { check_options(options_, group); });
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
        "after_forward; ranks without inputs have no forward");
  const auto& parameters = reducer_->parameters();
  if (std::all_of(parameters.begin(), parameters.end(), [](const Parameter& parameter) {
        return parameter.sparse;
      }))
    throw NotSupported(
        "[dp] expected a parameter with dense gradients for a join, since what ranks "
        "have to know rides on those; got sparse ones only");
  reducer_->divide_by_active(options.divide_by_active);
  reducer_->throw_on_early_end(options.throw_on_early_end);
  joins_ = true;
}

bool Replica::shadow_step() {
  // What the others do before their next forward.
  if (reducer_->rounds() > buffers_round_ && !options_.buffers.after_forward)
    sync_buffers();
  return reducer_->shadow();
}

/// The rank that had inputs to the end has the newest values.
void Replica::all_joined() {
  const auto& active = reducer_->last_active();
  const auto last = std::find_if(
      active.rbegin(), active.rend(), [](int64_t count) { return count > 0; });
  if (last != active.rend())
    broadcast_state(static_cast<int>(active.rend() - last) - 1);
}

void Replica::end_join() {
  reducer_->divide_by_active(false);
  reducer_->throw_on_early_end(false);
  joins_ = false;
}

}  // namespace trireme::dp
