// What a DistributedOptimizer keeps, as tensors with names, and back.
#include <algorithm>
#include <cmath>
#include <regex>
#include <set>
#include <utility>

#include <ATen/ATen.h>

#include "trireme/core/error.h"
#include "trireme/dist_autograd/distributed_optimizer.h"

namespace trireme::dist_autograd {
namespace {

constexpr const char* kSteps = "steps";
constexpr const char* kParameter = "parameter.";

std::string rate_name(std::size_t group) {
  return text("group.", group, ".lr");
}

[[noreturn]] void refuse_entry(const std::string& name, const std::string& expected) {
  throw InvalidArgument(text(
      "[dist_autograd] expected ",
      expected,
      " in the state of an optimizer, got ",
      name,
      "; load what state_dict() of an optimizer of the same groups gave"));
}

// The number of a parameter in "parameter.3.exp_avg".
std::size_t number_in(const std::string& name, std::size_t parameters) {
  static const std::regex form("parameter\\.([0-9]{1,9})\\..+");
  std::smatch match;
  const std::string expected =
      text("steps, group.N.lr and parameter.N below ", parameters);
  if (!std::regex_match(name, match, form))
    refuse_entry(name, expected);
  const std::size_t number = std::stoul(match[1]);
  if (number >= parameters)
    refuse_entry(name, expected);
  return number;
}

double number_of(const TensorMap& state, const std::string& name) {
  const auto found = state.find(name);
  if (found == state.end())
    refuse_entry("none", name);
  const at::Tensor& tensor = found->second;
  if (!tensor.defined() || tensor.numel() != 1 || !tensor.device().is_cpu())
    refuse_entry("another tensor", "one number as " + name);
  const double number = tensor.item<double>();
  if (!std::isfinite(number) || number < 0)
    refuse_entry(text(number), "a finite number of at least 0 as " + name);
  return number;
}

}  // namespace

TensorMap DistributedOptimizer::state_dict() const {
  const Deadline deadline = Deadline::after(options_.timeout);
  const LocksHeld turn({stepping_}, deadline);
  std::vector<rpc::Future<TensorMap>> parts;
  for (const Owner& owner : owners_)
    parts.push_back(
        to(owner.worker, deadline).async(optimizer_calls::state, owner.part));
  TensorMap state;
  for (rpc::Future<TensorMap>& part : parts)
    for (auto& [name, tensor] : std::move(part).get())
      state[kParameter + name] = tensor;
  const std::lock_guard lock(mutex_);
  state[kSteps] = at::full({}, steps_, at::kLong);
  for (std::size_t i = 0; i < rates_.size(); ++i)
    state[rate_name(i)] = at::full({}, rates_[i], at::kDouble);
  return state;
}

void DistributedOptimizer::load_state_dict(const TensorMap& state) {
  const Deadline deadline = Deadline::after(options_.timeout);
  const LocksHeld turn({stepping_}, deadline);
  const auto steps = static_cast<std::int64_t>(number_of(state, kSteps));
  std::vector<double> rates;
  for (std::size_t i = 0; i < rates_.size(); ++i)
    rates.push_back(number_of(state, rate_name(i)));
  const std::vector<TensorMap> parts = parts_of(state);
  for (const bool only_check : {true, false}) {
    std::vector<rpc::Future<void>> loaded;
    for (std::size_t i = 0; i < owners_.size(); ++i)
      loaded.push_back(
          to(owners_[i].worker, deadline)
              .async(optimizer_calls::load, owners_[i].part, parts[i], only_check));
    for (const rpc::Future<void>& part : loaded)
      part.wait(deadline);
    for (const rpc::Future<void>& part : loaded)
      part.get();
  }
  const std::lock_guard lock(mutex_);
  steps_ = steps;
  std::copy(rates.begin(), rates.end(), rates_.begin());
}

// What of a state goes to each owner.
std::vector<TensorMap> DistributedOptimizer::parts_of(const TensorMap& state) const {
  std::vector<TensorMap> parts(owners_.size());
  std::set<std::string> scalars{kSteps};
  for (std::size_t i = 0; i < rates_.size(); ++i)
    scalars.insert(rate_name(i));
  for (const auto& [name, tensor] : state) {
    if (scalars.contains(name))
      continue;
    const std::size_t number = number_in(name, owner_of_.size());
    parts[owner_of_[number]][name.substr(std::string(kParameter).size())] = tensor;
  }
  return parts;
}

}  // namespace trireme::dist_autograd
