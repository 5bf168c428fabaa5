#include "trireme/bench/dist_autograd_worker.h"

#include <chrono>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "trireme/bench/job.h"
#include "trireme/bench/protocol.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/log.h"
#include "trireme/dist_autograd/context.h"
#include "trireme/net/rendezvous.h"

namespace trireme::bench {
namespace {

using GradientClock = std::chrono::steady_clock;
using dist_autograd::BackwardOptions;
using dist_autograd::Context;
using dist_autograd::Mode;

const rpc::Function<at::Tensor(at::Tensor, at::Tensor)> gradient_mul{.name = "mul"};
const rpc::Function<at::Tensor(at::Tensor, int)> gradient_chain{.name = "chain"};
constexpr double kChainWeight = 2;

rpc::FunctionTable gradient_functions(const std::shared_ptr<HybridParts>& parts) {
  const at::Tensor weight = at::full({1}, kChainWeight).set_requires_grad(true);
  rpc::FunctionTable functions;
  functions.add(
      gradient_mul, [](const at::Tensor& x, const at::Tensor& y) { return x * y; });
  // Through this worker and as many more, and all the way back.
  functions.add(gradient_chain, [weight](const at::Tensor& x, int left) -> at::Tensor {
    const at::Tensor y = x * weight;
    if (left == 0)
      return y;
    const auto agent = rpc::this_agent();
    return agent.to(agent.me().id + 1).call(gradient_chain, y, left - 1);
  });
  add_hybrid_functions(functions, parts);
  return functions;
}

// What worker 0 computes alone, from two tensors of which it knows the gradients.
struct Product {
  explicit Product(int64_t floats)
      : x(at::full({floats}, 3.0).set_requires_grad(true)),
        y(at::full({floats}, 5.0).set_requires_grad(true)) {}
  at::Tensor x, y;
};

at::Tensor fan_out(const rpc::Agent& agent, const GradientJob& job, const Product& of) {
  const auto others = static_cast<int>(agent.workers().size()) - 1;
  std::vector<rpc::Future<at::Tensor>> results;
  for (int i = 0; i < job.calls; ++i)
    results.push_back(agent.to(1 + i % others).async(gradient_mul, of.x, of.y));
  std::vector<at::Tensor> products;
  for (auto& result : results)
    products.push_back(result.get());
  return at::stack(products).sum();
}

at::Tensor gradient_loss(
    const rpc::Agent& agent, const GradientJob& job, const Product& of) {
  if (job.op == "multiply")
    return agent.to(1).call(gradient_mul, of.x, of.y).sum();
  if (job.op == "chain")
    return agent.to(1).call(gradient_chain, of.x, job.calls - 1).sum();
  return fan_out(agent, job, of);
}

at::Tensor wanted_gradient(const GradientJob& job, const Product& of) {
  if (job.op == "chain")
    return at::full_like(of.x, std::pow(kChainWeight, job.calls));
  return of.y.detach() * (job.op == "fan_out" ? job.calls : 1);
}

BackwardOptions options_of(const GradientJob& job) {
  return {
      .mode = job.mode == "fast" ? Mode::Fast : Mode::Exact,
      .static_graph = job.mode == "static"};
}

void check_known(const GradientJob& job) {
  if (job.wire != "host" && job.wire != "plain")
    throw InvalidArgument(text(
        "[bench] expected wire to be host or plain, got ",
        in_quotes(job.wire),
        "; take one of them"));
  if (job.mode != "exact" && job.mode != "fast" && job.mode != "static")
    throw InvalidArgument(text(
        "[bench] expected mode to be exact, fast or static, got ",
        in_quotes(job.mode),
        "; take one of them"));
  if (job.op != "multiply" && job.op != "chain" && job.op != "fan_out" &&
      job.op != "hybrid")
    throw InvalidArgument(text(
        "[bench] expected op to be multiply, chain, fan_out or hybrid, got ",
        in_quotes(job.op),
        "; take one of them"));
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    GradientJob, op, wire, mode, floats, calls, warm_up, repetitions)

std::string to_line(const GradientJob& job) {
  return nlohmann::json(job).dump();
}

GradientJob parse_gradient_job(const std::string& line) {
  return parse_job<GradientJob>(line);
}

GradientWorker::GradientWorker(comm::Group world, RpcMeeting meeting)
    : world_(std::move(world)), meeting_(std::move(meeting)) {
  if (world_.size() > kHybridTrainers)
    trainers_ = world_.split(world_.rank() < kHybridTrainers ? 0 : -1);
}

GradientWorker::~GradientWorker() {
  for (auto& [wire, agent] : agents_)
    try {
      agent->shutdown({.timeout = std::chrono::seconds(2)});
    } catch (const std::exception& error) {
      // All was measured by now.
      TRIREME_LOG(debug, "bench") << "the end of " << wire << ": " << error.what();
    }
}

rpc::Agent& GradientWorker::agent(const std::string& wire) {
  auto& place = agents_[wire];
  if (place)
    return *place;
  auto options = rpc_bench_agent(
      meeting_, wire, text("worker", world_.rank()), world_.rank(), world_.size());
  options.functions = gradient_functions(parts_);
  options.world = wire;
  place =
      std::make_unique<rpc::Agent>(dist_autograd::with_gradients(std::move(options)));
  return *place;
}

std::vector<double> GradientWorker::work(const GradientJob& job) {
  check_known(job);
  const rpc::Agent& agent = this->agent(job.wire);
  const bool hybrid = job.op == "hybrid";
  if (world_.rank() >= (hybrid ? kHybridTrainers : 1))
    return {};
  const Step step = prepare(job, agent);
  std::vector<double> row;
  for (int i = 0; i < job.warm_up + job.repetitions; ++i) {
    if (hybrid)
      comm::barrier(trainers_);
    const auto start = GradientClock::now();
    step();
    const std::chrono::duration<double> time = GradientClock::now() - start;
    if (i >= job.warm_up)
      row.push_back(time.count());
  }
  return row;
}

GradientWorker::Step GradientWorker::prepare(
    const GradientJob& job, const rpc::Agent& agent) {
  const BackwardOptions options = options_of(job);
  if (job.op == "hybrid") {
    if (!trainer_ || std::exchange(trainer_wire_, job.wire) != job.wire)
      trainer_ = std::make_unique<HybridTrainer>(agent, trainers_);
    trainer_wire_ = job.wire;
    trainer_->check(options);
    return [this, options] { trainer_->step(options); };
  }
  const auto forward_and_backward = [&agent, job, options](const Product& of) {
    const Context context(agent);
    context.backward({gradient_loss(agent, job, of)}, options);
    return context.gradient(of.x);
  };
  const Product of(job.floats);
  expect_gradient(
      forward_and_backward(of), wanted_gradient(job, of), "the gradient of products");
  return [of, forward_and_backward] { forward_and_backward(of); };
}

int run_gradient_worker(std::istream& in, std::ostream& out) {
  at::set_num_threads(1);
  return serve_jobs(in, out, [] {
    const Environment env = Environment::of_process();
    const comm::Group world = comm::init();
    auto worker = std::make_shared<GradientWorker>(
        world,
        RpcMeeting{
            .store = net::open_store("env://", {.env = env, .rank = world.rank()}),
            .key = net::JobKey::parse(env.find("TRIREME_JOB_KEY").value_or(""))});
    return JobWork([worker](const std::string& line) {
      return worker->work(parse_gradient_job(line));
    });
  });
}

}  // namespace trireme::bench
