#include "trireme/dp/options.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

std::string dtype_text(const std::optional<c10::ScalarType>& dtype) {
  return dtype ? c10::toString(*dtype) : "-";
}

void check_common(const DataParallelOptions& options) {
  options.limits();
  const auto& low = options.mixed_precision;
  if (low.reduction && options.gradient_dtype &&
      *low.reduction != *options.gradient_dtype)
    throw InvalidArgument(text(
        "[dp] expected one dtype to reduce gradients in, got gradient_dtype ",
        dtype_text(options.gradient_dtype),
        " and mixed_precision.reduction ",
        dtype_text(low.reduction),
        "; set one of them"));
  for (const auto& dtype :
       {options.gradient_dtype, low.parameters, low.reduction, low.buffers})
    if (dtype && !c10::isFloatingType(*dtype))
      throw InvalidArgument(text(
          "[dp] expected floating dtypes in gradient_dtype and mixed_precision, got ",
          dtype_text(dtype),
          "; use float32 or bfloat16"));
  if (options.unrounded && !options.reduction_dtype())
    throw InvalidArgument(
        "[dp] expected a gradient_dtype for unrounded, got none; set it, or leave "
        "unrounded out");
  if (options.check_replicas_every < 0)
    throw InvalidArgument(text(
        "[dp] expected check_replicas_every of at least 0, got ",
        options.check_replicas_every,
        "; 0 is never"));
}

[[noreturn]] void refuse_for_stages(const char* option) {
  throw InvalidArgument(text(
      "[dp] expected options that the stages of a pipeline have, got ",
      option,
      "; leave it out"));
}

}  // namespace

BucketLimits DataParallelOptions::limits() const {
  BucketLimits limits;
  limits.bytes = bucket_bytes_list;
  if (limits.bytes.empty())
    limits.bytes = {std::min(first_bucket_bytes, bucket_bytes), bucket_bytes};
  if (std::find(limits.bytes.begin(), limits.bytes.end(), size_t{0}) !=
      limits.bytes.end())
    throw InvalidArgument(
        "[dp] expected buckets of at least one byte, got a limit of 0; give bytes, not "
        "mebibytes");
  return limits;
}

void check_module_options(
    const DataParallelOptions& options, const comm::Group& group) {
  check_common(options);
  if (options.stage_hooks || options.store != nullptr)
    throw InvalidArgument(text(
        "[dp] expected options that a module has, got ",
        options.stage_hooks ? "stage_hooks" : "store",
        "; it is for StageSync alone"));
  if (options.buffers.mode == BufferMode::Hook && !options.buffers.hook)
    throw InvalidArgument(
        "[dp] expected a function for BufferMode::Hook, got none; set buffers.hook");
  if (options.buffers.source < 0 || options.buffers.source >= group.size())
    throw InvalidArgument(text(
        "[dp] expected buffers from a rank below ",
        group.size(),
        ", got ",
        options.buffers.source,
        "; correct buffers.source"));
}

void check_stage_options(const DataParallelOptions& options) {
  check_common(options);
  const auto& low = options.mixed_precision;
  if (options.find_unused)
    refuse_for_stages("find_unused (a stage's parameters may always stay unused)");
  if (options.static_graph)
    refuse_for_stages("static_graph");
  if (low.parameters || low.reduction || low.buffers)
    refuse_for_stages("mixed_precision (set the dtype of the stages' modules)");
  if (!options.ignore.empty())
    refuse_for_stages("ignore (list only the parameters to reduce)");
  if (!options.delay.empty())
    refuse_for_stages("delay");
  if (options.check_replicas_every > 0)
    refuse_for_stages("check_replicas_every");
  if (!options.hooks.empty())
    refuse_for_stages("hooks (set stage_hooks)");
}

std::vector<std::string> option_lines(const DataParallelOptions& options) {
  std::vector<std::string> lines{text(
      "options: reduction ",
      static_cast<int>(options.reduction),
      ", find_unused ",
      options.find_unused,
      ", static_graph ",
      options.static_graph,
      ", rebuild ",
      options.rebuild,
      ", buffers ",
      static_cast<int>(options.buffers.mode),
      ", after_forward ",
      options.buffers.after_forward,
      ", source ",
      options.buffers.source,
      ", gradient_dtype ",
      dtype_text(options.gradient_dtype),
      ", unrounded ",
      options.unrounded,
      ", mixed precision ",
      dtype_text(options.mixed_precision.parameters),
      " ",
      dtype_text(options.mixed_precision.reduction),
      " ",
      dtype_text(options.mixed_precision.buffers),
      ", norm ",
      options.norm,
      ", check_replicas_every ",
      options.check_replicas_every)};
  for (const size_t bytes : options.limits().bytes)
    lines.push_back(text("options: bucket limit ", bytes));
  for (const auto& hook : options.hooks)
    lines.push_back(text("hook ", hook->name()));
  for (const std::string& name : options.delay)
    lines.push_back(text("delayed ", name));
  return lines;
}

}  // namespace trireme::dp
