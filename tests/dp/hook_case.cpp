#include "hook_case.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "trireme/comm/collectives.h"
#include "trireme/dp/orthogonalize.h"
#include "trireme/testing/world.h"

namespace trireme::dp {

struct HookCase::Net : torch::nn::Module {
  torch::nn::Linear last{nullptr};
  torch::nn::Linear first{nullptr};
  torch::nn::Linear middle{nullptr};
  Net() {
    last = register_module("last", torch::nn::Linear(32, 4));
    first = register_module("first", torch::nn::Linear(16, 32));
    middle = register_module("middle", torch::nn::Linear(32, 32));
  }
};

namespace {

/// Ranks may be threads, which share torch's generator.
at::Tensor random(at::IntArrayRef sizes, uint32_t stream) {
  at::Tensor numbers = at::empty(sizes, at::kFloat);
  fill_uniform(numbers, {.seed = 3, .a = stream});
  return numbers;
}

}  // namespace

DataParallelOptions tiny_buckets(CommHooks hooks) {
  return {.bucket_bytes = 64, .first_bucket_bytes = 64, .hooks = std::move(hooks)};
}

DataParallelOptions one_bucket(CommHooks hooks) {
  return {.hooks = std::move(hooks)};
}

HookCase::HookCase(const comm::Group& group, DataParallelOptions options)
    : group_(group) {
  net_ = std::make_shared<Net>();
  uint32_t stream = 0;
  for (const at::Tensor& parameter : net_->parameters())
    parameter.data().copy_(random(parameter.sizes(), ++stream) * 0.3);
  replica_ = std::make_unique<Replica>(*net_, group, std::move(options));
  inputs_ = random({64, 16}, ++stream) * 2;
  targets_ = at::tanh(at::mm(inputs_, random({16, 4}, ++stream)));
}

HookCase::~HookCase() = default;

std::vector<at::Tensor> HookCase::parameters() const {
  return net_->parameters();
}

std::vector<at::Tensor> HookCase::gradients() const {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : net_->parameters())
    all.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  return all;
}

at::Tensor HookCase::loss_of(int64_t first, int64_t step, bool short_way) const {
  const at::Tensor x =
      inputs_.slice(0, first, 64, step).to(net_->first->weight.scalar_type());
  const at::Tensor y = targets_.slice(0, first, 64, step);
  const at::Tensor hidden = at::tanh(net_->middle(at::tanh(net_->first(x))));
  const at::Tensor out = short_way ? hidden.slice(1, 0, 4) : net_->last(hidden);
  return at::mse_loss(out.to(y.scalar_type()), y);
}

void HookCase::backward(bool short_way) {
  const auto low_precision = replica_->before_forward();
  replica_->watch(loss_of(group_.rank(), group_.size(), short_way)).backward();
}

void HookCase::zero_grad() {
  net_->zero_grad();
}

void HookCase::sgd(double rate) {
  const torch::NoGradGuard guard;
  for (at::Tensor& parameter : net_->parameters())
    if (parameter.grad().defined())
      parameter.sub_(parameter.grad(), rate);
}

void HookCase::train(int64_t steps, double rate) {
  for (int64_t step = 0; step < steps; ++step) {
    backward();
    sgd(rate);
    zero_grad();
  }
}

std::vector<at::Tensor> HookCase::gradients_of(int64_t first, int64_t step) const {
  return torch::autograd::grad({loss_of(first, step, false)}, net_->parameters());
}

std::vector<at::Tensor> HookCase::own_gradients() const {
  return gradients_of(group_.rank(), group_.size());
}

std::vector<at::Tensor> HookCase::mean_gradients() const {
  return gradients_of(0, 1);
}

double HookCase::loss() const {
  const torch::NoGradGuard guard;
  return loss_of(0, 1, false).item<double>();
}

void run_both(int ranks, const std::function<void(const comm::Group&)>& body) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, ranks, body);
}

bool same_everywhere(const comm::Group& group, const std::vector<at::Tensor>& tensors) {
  bool same = true;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor bytes = tensor.detach().contiguous().view({-1}).view(at::kByte);
    at::Tensor all = at::empty({group.size() * bytes.numel()}, bytes.options());
    comm::all_gather(group, all, bytes);
    for (int64_t r = 0; r < group.size(); ++r)
      same = same && all.narrow(0, r * bytes.numel(), bytes.numel()).equal(bytes);
  }
  return same;
}

double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, (a[i] - b[i]).abs().max().item<double>());
  return most;
}

}  // namespace trireme::dp
