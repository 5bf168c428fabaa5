#include "trireme/dp/convert_sync_batch_norm.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

#include <c10/util/Type.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

using torch::nn::AnyModule;
using torch::nn::BatchNorm1dImpl;
using torch::nn::BatchNorm2dImpl;
using torch::nn::BatchNorm3dImpl;
using torch::nn::Module;
using torch::nn::SequentialImpl;

std::string type_of(const Module& module) {
  return c10::demangle(typeid(module).name());
}

bool is_batch_norm(const Module& module) {
  return module.as<BatchNorm1dImpl>() || module.as<BatchNorm2dImpl>() ||
         module.as<BatchNorm3dImpl>();
}

/// Whether it is one of torch's own classes, and nothing that was derived from them.
bool is_plain_batch_norm(const Module& module) {
  const std::type_info& type = typeid(module);
  return type == typeid(BatchNorm1dImpl) || type == typeid(BatchNorm2dImpl) ||
         type == typeid(BatchNorm3dImpl);
}

bool holds(const SequentialImpl& sequential, const std::shared_ptr<Module>& child) {
  return std::any_of(
      sequential.begin(), sequential.end(), [&](const AnyModule& module) {
        return module.ptr() == child;
      });
}

template <class BatchNorm>
SyncBatchNorm made_from(BatchNorm& old, const comm::Group& group) {
  SyncBatchNorm made(
      SyncBatchNormOptions{
          .num_features = old.options.num_features(),
          .eps = old.options.eps(),
          .momentum = old.options.momentum(),
          .affine = old.options.affine(),
          .track_running_stats = old.options.track_running_stats(),
          .group = group},
      SyncBatchNormTensors{
          .weight = old.weight,
          .bias = old.bias,
          .running_mean = old.running_mean,
          .running_var = old.running_var,
          .num_batches_tracked = old.num_batches_tracked});
  made->train(old.is_training());
  return made;
}

/// Looks at the whole model before it changes anything.
class Conversion {
 public:
  void visit(Module& parent, const std::string& path);
  size_t run(const comm::Group& group);

 private:
  struct Place {
    SequentialImpl* parent;
    std::string name;
    std::shared_ptr<Module> old;
  };

  void add_place(
      Module& parent,
      const std::string& path,
      const std::shared_ptr<Module>& child,
      const std::string& name);

  std::set<const Module*> seen_;
  std::vector<Place> places_;
  std::vector<std::shared_ptr<SyncBatchNormImpl>> without_group_;
};

void Conversion::visit(Module& parent, const std::string& path) {
  if (!seen_.insert(&parent).second)
    return;
  for (const auto& item : parent.named_children()) {
    const std::shared_ptr<Module>& child = item.value();
    if (!child)
      continue;
    const std::string child_path = path.empty() ? item.key() : path + "." + item.key();
    if (is_batch_norm(*child))
      add_place(parent, child_path, child, item.key());
    else if (auto sync = std::dynamic_pointer_cast<SyncBatchNormImpl>(child)) {
      if (!sync->options().group && seen_.insert(sync.get()).second)
        without_group_.push_back(std::move(sync));
    } else
      visit(*child, child_path);
  }
}

void Conversion::add_place(
    Module& parent,
    const std::string& path,
    const std::shared_ptr<Module>& child,
    const std::string& name) {
  if (!is_plain_batch_norm(*child))
    throw NotSupported(text(
        "[dp] expected BatchNorm layers of torch's own classes, got \"",
        path,
        "\", a ",
        type_of(*child),
        ", whose changes to its base would be lost; hold it as a class derived from "
        "dp::SyncBatchNormImpl"));
  // A class derived from Sequential may have registered a member of its own besides.
  auto* const sequential = parent.as<SequentialImpl>();
  if (sequential != nullptr && holds(*sequential, child)) {
    places_.push_back({sequential, name, child});
    return;
  }
  throw NotSupported(text(
      "[dp] expected BatchNorm layers in Sequentials, got \"",
      path,
      "\", a ",
      type_of(*child),
      " of a ",
      type_of(parent),
      ", which would go on calling it by its type; hold it as dp::SyncBatchNorm, which "
      "is a BatchNorm until it is given a group, or put it in a Sequential"));
}

size_t Conversion::run(const comm::Group& group) {
  std::map<const Module*, SyncBatchNorm> made;
  for (const Place& place : places_)
    if (!made.contains(place.old.get()))
      made.emplace(place.old.get(), sync_batch_norm_from(*place.old, group));
  for (const Place& place : places_) {
    const SyncBatchNorm& layer = made.at(place.old.get());
    // A Sequential calls these, and everybody else sees what is registered.
    for (AnyModule& module : *place.parent)
      if (module.ptr() == place.old)
        module = AnyModule(layer);
    place.parent->replace_module(place.name, layer);
  }
  for (const auto& layer : without_group_)
    layer->set_group(group);
  return made.size() + without_group_.size();
}

}  // namespace

SyncBatchNorm sync_batch_norm_from(Module& batch_norm, const comm::Group& group) {
  if (is_plain_batch_norm(batch_norm)) {
    if (auto* const one = batch_norm.as<BatchNorm1dImpl>())
      return made_from(*one, group);
    if (auto* const two = batch_norm.as<BatchNorm2dImpl>())
      return made_from(*two, group);
    if (auto* const three = batch_norm.as<BatchNorm3dImpl>())
      return made_from(*three, group);
  }
  throw InvalidArgument(text(
      "[dp] expected a BatchNorm1d, BatchNorm2d or BatchNorm3d, got a ",
      type_of(batch_norm),
      "; call convert_sync_batch_norm() for a model that holds some"));
}

size_t convert_sync_batch_norm(Module& model, const comm::Group& group) {
  if (!group)
    throw InvalidArgument(
        "[dp] expected a group to share batches with, got none; pass what init() or "
        "split() gave");
  if (is_batch_norm(model))
    throw NotSupported(
        "[dp] expected a model that holds BatchNorm layers, got a BatchNorm itself, "
        "which cannot become another class in its place; use sync_batch_norm_from()");
  if (auto* const layer = model.as<SyncBatchNormImpl>()) {
    const bool has_one{layer->options().group};
    if (!has_one)
      layer->set_group(group);
    return has_one ? 0 : 1;
  }
  Conversion conversion;
  conversion.visit(model, "");
  return conversion.run(group);
}

}  // namespace trireme::dp
