#include "trireme/bench/dist_autograd_hybrid.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"

namespace trireme::bench {
namespace {

// Those of bench/peers/dist_autograd.py.
constexpr int64_t kHybridRows = 1000, kSparse = 64, kDense = 64, kHidden = 128;
constexpr int64_t kHybridBatch = 64, kBag = 4;

const rpc::Function<at::Tensor(at::Tensor, at::Tensor)> embed{.name = "embed"};
const rpc::Function<at::Tensor(at::Tensor)> run_net{.name = "run_net"};
const rpc::Function<at::Tensor()> net_gradient{.name = "net_gradient"};

torch::nn::Linear linear_of(int64_t in, int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

// What of the model a trainer has.
struct TrainerPartImpl : torch::nn::Module {
  TrainerPartImpl() {
    const HybridParts parts;
    fc1 = register_module("fc1", parts.fc1);
    fc2 = register_module("fc2", parts.fc2);
  }
  at::Tensor forward(const rpc::Caller& server, const HybridBatch& batch) {
    const at::Tensor sparse = server.call(embed, batch.ids, batch.offsets);
    const at::Tensor x = at::cat({fc1->forward(batch.dense), sparse}, 1);
    return fc2->forward(server.call(run_net, x));
  }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};
TORCH_MODULE(TrainerPart);

at::Tensor loss_of(const at::Tensor& output, const HybridBatch& batch) {
  return (output.squeeze(1) * batch.values).sum();
}

}  // namespace

HybridParts::HybridParts()
    : embedding(
          torch::nn::EmbeddingBagOptions(kHybridRows, kSparse).mode(torch::kMean)),
      net(linear_of(kDense + kSparse, kHidden)),
      fc1(linear_of(kDense, kDense)),
      fc2(linear_of(kHidden, 1)) {
  const at::NoGradGuard no_grad;
  const at::Generator generator = at::detail::createCPUGenerator(0);
  for (at::Tensor* weight :
       {&embedding->weight, &net->weight, &fc1->weight, &fc2->weight})
    weight->normal_(0, 0.1, generator);
}

HybridBatch::HybridBatch(int rank) {
  const at::Generator generator =
      at::detail::createCPUGenerator(1 + static_cast<uint64_t>(rank));
  ids = at::randint(kHybridRows, {kHybridBatch * kBag}, generator, at::kLong);
  offsets = at::arange(0, kHybridBatch * kBag, kBag);
  dense = at::randn({kHybridBatch, kDense}, generator);
  values = at::randn({kHybridBatch}, generator);
}

void add_hybrid_functions(
    rpc::FunctionTable& functions, const std::shared_ptr<HybridParts>& parts) {
  functions
      .add(
          embed,
          [parts](const at::Tensor& ids, const at::Tensor& offsets) {
            return parts->embedding->forward(ids, offsets);
          })
      .add(
          run_net,
          [parts](const at::Tensor& x) { return parts->net->forward(x).relu(); })
      .add(net_gradient, [parts] {
        return dist_autograd::this_context().gradient(parts->net->weight);
      });
}

struct HybridTrainer::Model {
  explicit Model(const comm::Group& trainers) : part(TrainerPart(), trainers) {}
  dp::DataParallel<TrainerPart> part;
};

HybridTrainer::HybridTrainer(const rpc::Agent& agent, comm::Group trainers)
    : agent_(agent),
      trainers_(std::move(trainers)),
      batch_(trainers_.rank()),
      model_(std::make_unique<Model>(trainers_)) {}

HybridTrainer::~HybridTrainer() = default;

at::Tensor HybridTrainer::loss() {
  return loss_of(model_->part.forward(agent_.to(kHybridTrainers), batch_), batch_);
}

void HybridTrainer::step(const dist_autograd::BackwardOptions& options) {
  const dist_autograd::Context context(agent_);
  context.backward({loss()}, options);
}

void HybridTrainer::check(const dist_autograd::BackwardOptions& options) {
  HybridParts local;
  const at::Tensor sparse = local.embedding->forward(batch_.ids, batch_.offsets);
  const at::Tensor x = at::cat({local.fc1->forward(batch_.dense), sparse}, 1);
  loss_of(local.fc2->forward(local.net->forward(x).relu()), batch_).backward();
  at::Tensor mean = local.fc1->weight.grad().clone();
  comm::all_reduce(trainers_, mean, {.op = comm::ReduceOp::Mean});

  const dist_autograd::Context context(agent_);
  context.backward({loss()}, options);
  expect_gradient(
      agent_.to(kHybridTrainers).call(net_gradient),
      local.net->weight.grad(),
      "this trainer's own gradient at the server");
  expect_gradient(
      context.gradient(model_->part->fc1->weight), mean, "the mean over the trainers");
}

void expect_gradient(
    const at::Tensor& got, const at::Tensor& wanted, const char* what) {
  if (!got.defined() || !at::allclose(got, wanted, 1e-4, 1e-4))
    throw Error(text("[bench] expected ", what, ", got something else; this is a bug"));
}

}  // namespace trireme::bench
