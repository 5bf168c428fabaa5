#include "trireme/bench/ddp_worker.h"

#include <chrono>
#include <cmath>
#include <memory>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "trireme/bench/job.h"
#include "trireme/bench/protocol.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"

namespace trireme::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using torch::nn::Sequential;

/// The same on every rank. Weights are scaled so that gradients neither grow nor vanish
/// over hundreds of layers: arithmetic with tiny numbers is slow.
Sequential make_model(const DdpJob& job) {
  at::manual_seed(0);
  Sequential model;
  const at::NoGradGuard no_grad;
  for (int i = 0; i < job.layers; ++i) {
    torch::nn::Linear layer(job.width, job.width);
    layer->weight.mul_(std::sqrt(3.0));
    model->push_back(layer);
  }
  return model;
}

/// From the barrier on, by this rank's own clock.
template <class Step>
double timed(const comm::Group& world, const Step& step) {
  comm::barrier(world);
  const auto start = Clock::now();
  step();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

/// The two models that are compared, with an input of this rank's own.
struct DdpWorker::Prepared {
  Prepared(const comm::Group& world, const DdpJob& job)
      : local(make_model(job)), parallel(make_model(job), world) {
    at::manual_seed(1 + static_cast<uint64_t>(world.rank()));
    input = at::randn({job.batch, job.width});
    check(world);
  }

  void parallel_step() {
    parallel.forward(input).sum().backward();
    parallel->zero_grad();
  }
  void local_step() {
    local->forward(input).sum().backward();
    local->zero_grad();
  }

  /// What is fast but wrong is not measured.
  void check(const comm::Group& world) {
    parallel.forward(input).sum().backward();
    local->forward(input).sum().backward();
    at::Tensor wanted = local->parameters().back().grad().clone();
    comm::all_reduce(world, wanted, {.op = comm::ReduceOp::Mean});
    if (!at::allclose(parallel->parameters().back().grad(), wanted, 1e-4, 1e-4))
      throw Error(
          "[bench] expected the mean of all ranks' gradients, got something else; this "
          "is a bug");
    parallel->zero_grad();
    local->zero_grad();
  }

  at::Tensor input;
  Sequential local;
  dp::DataParallel<Sequential> parallel;
};

DdpWorker::DdpWorker(comm::Group world) : world_(std::move(world)) {}

DdpWorker::~DdpWorker() = default;

std::vector<double> DdpWorker::work(const DdpJob& job) {
  DdpJob same = job;
  same.warm_up = same.repetitions = 0;
  if (const std::string key = to_line(same); key != key_) {
    prepared_.reset();
    prepared_ = std::make_unique<Prepared>(world_, job);
    key_ = key;
  }
  std::vector<double> row;
  std::vector<double> local;
  for (int i = 0; i < job.warm_up + job.repetitions; ++i) {
    const double with = timed(world_, [this] { prepared_->parallel_step(); });
    const double without = timed(world_, [this] { prepared_->local_step(); });
    if (i >= job.warm_up) {
      row.push_back(with);
      local.push_back(without);
    }
  }
  row.insert(row.end(), local.begin(), local.end());
  return row;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DdpJob, layers, width, batch, warm_up, repetitions)

std::string to_line(const DdpJob& job) {
  return Json(job).dump();
}

DdpJob parse_ddp_job(const std::string& line) {
  return parse_job<DdpJob>(line);
}

int run_ddp_worker(std::istream& in, std::ostream& out) {
  // Memory comes from torch's own allocator, as it does on the other side.
  at::set_num_threads(1);
  return serve_jobs(in, out, [] {
    const auto worker = std::make_shared<DdpWorker>(comm::init());
    return JobWork([worker](const std::string& line) {
      return worker->work(parse_ddp_job(line));
    });
  });
}

}  // namespace trireme::bench
