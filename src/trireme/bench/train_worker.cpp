#include "trireme/bench/train_worker.h"

#include <chrono>
#include <cmath>
#include <numeric>

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "trireme/bench/job.h"
#include "trireme/bench/protocol.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/memory/caching_allocator.h"
#include "trireme/train/engine.h"
#include "trireme/train/estimate.h"
#include "trireme/train/load_decoders.h"
#include "trireme/train/model_source.h"
#include "trireme/train/schedule_choice.h"

namespace trireme::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

train::Config make_config(const TrainJob& job) {
  train::Config config;
  config.model.dim = job.dim;
  config.model.n_layers = job.layers;
  config.model.n_heads = job.heads;
  config.model.hf_assets_path = job.folder;
  // Tied over two stages the embeddings would need one more reduction, for which torch
  // has nothing ready.
  config.model.tie_embeddings = false;
  config.training.seq_len = job.folder.empty() ? job.sequence : 1;
  config.training.global_batch_size = job.batch;
  // The best of each side for one stage a rank: torch has nothing beyond 1F1B there.
  const bool pipeline = job.layout == "pipeline";
  config.parallelism.pipeline_parallel_schedule = pipeline ? "ZB-H1" : "1F1B";
  if (pipeline)
    config.parallelism.pipeline_parallel_microbatch_size = job.microbatch;
  return config;
}

/// The same numbers as in make_tokens() of bench/peers/train.py.
data::TokenFile make_tokens(const TrainJob& job) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i <= job.batch * job.sequence * 8; ++i)
    tokens.push_back((i * i * 31 + i * 7 + i / 97) % job.vocab);
  return data::TokenFile(std::move(tokens));
}

train::Degrees make_degrees(const TrainJob& job, int ranks) {
  if (job.layout == "pipeline")
    return {.pp = ranks, .dp = 1};
  return {.pp = 1, .dp = ranks};
}

}  // namespace

/// What Job of the trainer has, without files and words.
struct TrainWorker::Training {
  Training(const comm::Group& world, const TrainJob& job)
      : config(make_config(job)),
        plan(train::describe_model(config, job.vocab).plan),
        degrees(make_degrees(job, world.size())),
        mesh(world, {{"dp", degrees.dp}, {"pp", degrees.pp}}),
        loader(
            make_tokens(job),
            {.sequence_length = job.sequence,
             .global_batch = job.batch,
             .rank = mesh.coordinate("dp"),
             .ranks = degrees.dp,
             .shuffle = false,
             .vocab_size = job.vocab}),
        engine(mesh, plan, make_layout(), config) {
    check(step(), static_cast<double>(job.vocab));
  }

  train::Layout make_layout() const {
    const train::BatchShape batch = train::choose_batch(config, degrees);
    return train::first_layout(
        config, degrees, batch, train::estimate_layers(plan, config, batch));
  }

  double step() { return engine.step(loader.next(), config.optimizer.lr).loss; }

  /// What is fast but wrong is not measured.
  void check(double loss, double vocab) const {
    if (engine.has_last() && !(std::abs(loss - std::log(vocab)) < 0.5))
      throw Error(text(
          "[bench] expected the loss of a fresh model, ",
          std::log(vocab),
          ", got ",
          loss,
          "; this is a bug"));
  }

  train::Config config;
  model::ModelPlan plan;
  train::Degrees degrees;
  comm::Mesh mesh;
  data::TokenLoader loader;
  train::Engine engine;
};

/// A model as `trireme sample` loads it.
struct TrainWorker::Sampling {
  Sampling(const comm::Group& group, const TrainJob& job) : world(group) {
    train::ModelSource source = train::describe_model(make_config(job), 1);
    plan = std::move(source.plan);
    stages = train::load_decoders(world, plan, source.weights);
  }

  std::vector<int64_t> generate(const TrainJob& job) {
    std::vector<int64_t> prompt(static_cast<size_t>(job.prompt));
    std::iota(prompt.begin(), prompt.end(), 1);
    return train::generate(
               world,
               stages,
               prompt,
               {.max_new_tokens = job.new_tokens, .temperature = 0},
               plan.position_limit())
        .new_ids;
  }

  comm::Group world;
  model::ModelPlan plan;
  train::StageDecoders stages;
};

TrainWorker::TrainWorker(comm::Group world) : world_(std::move(world)) {}

TrainWorker::~TrainWorker() = default;

void TrainWorker::prepare(const TrainJob& job) {
  TrainJob same = job;
  if (same.op != "step")
    same.op = "sample";
  same.warm_up = same.repetitions = 0;
  const std::string key = to_line(same);
  if (key == key_)
    return;
  training_.reset();
  sampling_.reset();
  if (job.op == "step")
    training_ = std::make_unique<Training>(world_, job);
  else
    sampling_ = std::make_unique<Sampling>(world_, job);
  key_ = key;
}

std::vector<double> TrainWorker::work(const TrainJob& job) {
  prepare(job);
  if (job.op == "tokens") {
    const std::vector<int64_t> tokens = sampling_->generate(job);
    return {tokens.begin(), tokens.end()};
  }
  std::vector<double> row;
  for (int i = 0; i < job.warm_up + job.repetitions; ++i) {
    comm::barrier(world_);
    const auto start = Clock::now();
    if (job.op == "step")
      training_->step();
    else
      sampling_->generate(job);
    comm::barrier(world_);
    if (i >= job.warm_up)
      row.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return row;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    TrainJob,
    op,
    layout,
    dim,
    layers,
    heads,
    vocab,
    sequence,
    batch,
    microbatch,
    folder,
    prompt,
    new_tokens,
    warm_up,
    repetitions)

std::string to_line(const TrainJob& job) {
  return Json(job).dump();
}

TrainJob parse_train_job(const std::string& line) {
  return parse_job<TrainJob>(line);
}

int run_train_worker(std::istream& in, std::ostream& out) {
  // As the ranks of `trireme train` begin.
  at::set_num_threads(1);
  memory::install_caching_allocator();
  return serve_jobs(in, out, [] {
    const auto worker = std::make_shared<TrainWorker>(comm::init());
    return JobWork([worker](const std::string& line) {
      return worker->work(parse_train_job(line));
    });
  });
}

}  // namespace trireme::bench
