#include "trireme/train/recommender.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <ostream>
#include <utility>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "trireme/ckpt/checkpoint.h"
#include "trireme/ckpt/safetensors.h"
#include "trireme/comm/agree.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/number_text.h"
#include "trireme/dist_autograd/sharded_embedding.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/memory/account.h"
#include "trireme/model/initial_values.h"
#include "trireme/train/clicks.h"
#include "trireme/train/config_file.h"
#include "trireme/train/lr_schedule.h"
#include "trireme/train/metrics.h"
#include "trireme/train/optimizer.h"
#include "trireme/train/progress.h"
#include "trireme/train/run_folder.h"
#include "trireme/train/run_lock.h"
#include "trireme/train/training_report.h"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kRows = 400;
// Far behind all samples that anybody trains on.
constexpr int64_t kFirstHeldOut = int64_t{1} << 48;

int64_t rows_of(const Config& config) {
  return config.model.vocab_size == 0 ? kRows : config.model.vocab_size;
}
int64_t users_of(const Config& config) {
  return rows_of(config) / 2;
}
int64_t width_of(const Config& config) {
  return config.model.hidden_dim == 0 ? config.model.dim : config.model.hidden_dim;
}

double seconds_from(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// From a user's row and an item's to how sure a click is.
class ClickNetImpl : public torch::nn::Module {
 public:
  explicit ClickNetImpl(const Config& config)
      : hidden_(register_module(
            "hidden", torch::nn::Linear(2 * config.model.dim, width_of(config)))),
        out_(register_module("out", torch::nn::Linear(width_of(config), 1))) {
    const at::NoGradGuard no_grad;
    for (auto& parameter : named_parameters()) {
      at::Tensor& value = parameter.value();
      const auto seed = static_cast<uint64_t>(config.training.seed);
      if (value.dim() == 1)
        value.zero_();
      else
        value.normal_(
            0,
            1 / std::sqrt(static_cast<double>(value.size(1))),
            model::generator_of(seed, parameter.key()));
    }
  }
  at::Tensor forward(const at::Tensor& rows) {
    return out_(at::relu(hidden_(rows.flatten(1)))).squeeze(1);
  }

 private:
  torch::nn::Linear hidden_;
  torch::nn::Linear out_;
};
TORCH_MODULE(ClickNet);

dist_autograd::ShardedEmbeddingOptions table_options(const Config& config) {
  using Rule = dist_autograd::RowRule;
  return {
      .name = "table",
      .rows = rows_of(config),
      .dim = config.model.dim,
      .optimizer =
          {.rule = config.optimizer.name == "SGD" ? Rule::SGD : Rule::Adam,
           .beta1 = config.optimizer.beta1,
           .beta2 = config.optimizer.beta2,
           .eps = config.optimizer.eps},
      .seed = static_cast<uint64_t>(config.training.seed),
      .deviation = 0.1};
}

std::string worker_name(const RecommenderRanks& ranks, int rank) {
  return rank < ranks.trainers ? text("trainer", rank)
                               : text("server", rank - ranks.trainers);
}

std::vector<std::string> server_names(const RecommenderRanks& ranks) {
  std::vector<std::string> names;
  for (int rank = ranks.trainers; rank < ranks.all(); ++rank)
    names.push_back(worker_name(ranks, rank));
  return names;
}

NamedTensors parameters_of(const torch::nn::Module& net) {
  NamedTensors parameters;
  for (const auto& parameter : net.named_parameters())
    parameters.emplace_back(parameter.key(), parameter.value());
  return parameters;
}

/// One trainer's job.
class RecommenderJob {
 public:
  RecommenderJob(
      const comm::Group& trainers,
      const rpc::Agent& agent,
      const RecommenderRanks& ranks,
      const Config& config,
      const TrainerOptions& options)
      : trainers_(trainers),
        agent_(agent),
        ranks_(ranks),
        config_(config),
        options_(options),
        folder_(open_run_folder(config)),
        lock_(lock_run(trainers, folder_.path)),
        clicks_(
            static_cast<uint64_t>(config.training.seed),
            users_of(config),
            rows_of(config) - users_of(config)),
        table_(agent, server_names(ranks), table_options(config)),
        net_(ClickNet(config), trainers),
        optimizer_(parameters_of(*net_.module()), config.optimizer) {}

  TrainResult run();

 private:
  bool leads() const { return trainers_.rank() == 0; }
  ClickBatch share(int64_t first) const;
  at::Tensor loss_of(const ClickBatch& batch);
  /// The mean over trainers, and whether any wants to stop. Collective.
  std::pair<double, bool> agree_on(double loss, bool stop) const;
  void open_output();
  StepMetrics step();
  void finish_step(StepMetrics& metrics, double seconds);
  double evaluate();
  void save() const;
  void conclude();
  void say(const std::string& line) {
    if (progress_)
      progress_->say(line);
  }

  comm::Group trainers_;
  const rpc::Agent& agent_;
  RecommenderRanks ranks_;
  Config config_;
  TrainerOptions options_;
  RunFolder folder_;
  std::unique_ptr<RunLock> lock_;
  Clicks clicks_;
  dist_autograd::ShardedEmbedding table_;
  dp::DataParallel<ClickNet> net_;
  Optimizer optimizer_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<Progress> progress_;
  int64_t step_ = 0;
  /// Of this step, for the servers.
  double waited_ = 0;
  TrainResult result_;
};

void RecommenderJob::open_output() {
  if (!leads())
    return;
  if (ckpt::latest_checkpoint(folder_.checkpoints))
    throw InvalidArgument(text(
        "[train] expected a folder without checkpoints for a recommender, got ",
        folder_.path.string(),
        "; set job.dump_folder to another"));
  write_durably(folder_.config(), to_toml(config_));
  metrics_ = std::make_unique<MetricsFile>(folder_.metrics(), 0);
  if (options_.progress == nullptr)
    return;
  progress_ = std::make_unique<Progress>(
      *options_.progress,
      ProgressOptions{
          .style = progress_style(config_.metrics.progress, options_.terminal),
          .every = config_.metrics.log_freq,
          .steps = config_.training.steps,
          .width = options_.width,
          .unit = "clicks"});
}

// This trainer's part of a batch.
ClickBatch RecommenderJob::share(int64_t first) const {
  const int64_t mine = config_.training.global_batch_size / trainers_.size();
  return clicks_.samples(first + mine * trainers_.rank(), mine);
}

at::Tensor RecommenderJob::loss_of(const ClickBatch& batch) {
  const auto start = Clock::now();
  const at::Tensor rows = table_.lookup(batch.ids);
  waited_ += seconds_from(start);
  return at::binary_cross_entropy_with_logits(net_.forward(rows), batch.clicked);
}

std::pair<double, bool> RecommenderJob::agree_on(double loss, bool stop) const {
  at::Tensor sums =
      at::tensor({loss / trainers_.size(), stop ? 1.0 : 0.0}, at::kDouble);
  comm::all_reduce(trainers_, sums);
  return {sums[0].item<double>(), sums[1].item<double>() > 0};
}

StepMetrics RecommenderJob::step() {
  memory::MemoryAccount::process().reset_peak();
  const auto start = Clock::now();
  const int64_t batch = config_.training.global_batch_size;
  const double rate = learning_rate(config_, step_);
  waited_ = 0;
  const dist_autograd::Context context(agent_);
  const at::Tensor loss = loss_of(share(step_ * batch));
  const auto [mean, stop] =
      agree_on(loss.item<double>(), options_.should_stop && options_.should_stop());
  if (!std::isfinite(mean))
    throw InvalidArgument(text(
        "[train] expected a finite loss in step ",
        step_ + 1,
        ", got ",
        mean,
        "; begin anew with a lower optimizer.lr"));
  const bool last = stop || step_ + 1 == config_.training.steps;
  if (!last)
    table_.prefetch(share((step_ + 1) * batch).ids);
  context.backward({loss});
  const auto ready = Clock::now();
  table_.step(context, {.lr = rate, .trainers = ranks_.trainers});
  waited_ += seconds_from(ready);
  double squares = 0;
  for (const auto& [name, parameter] : optimizer_.parameters()) {
    parameter.mutable_grad() = context.gradient(parameter);
    squares += std::pow(parameter.grad().norm().item<double>(), 2);
  }
  optimizer_.step(rate);
  optimizer_.zero_grad();
  ++step_;
  result_.stopped = stop && step_ < config_.training.steps;
  StepMetrics metrics{
      .step = step_,
      .loss = mean,
      .grad_norm = std::sqrt(squares),
      .lr = rate,
      .tokens = step_ * batch};
  finish_step(metrics, seconds_from(start));
  return metrics;
}

// What differs from trainer to trainer: the means, and the most memory.
void RecommenderJob::finish_step(StepMetrics& metrics, double seconds) {
  at::Tensor sums = at::tensor({waited_ / seconds, seconds}, at::kDouble);
  comm::all_reduce(trainers_, sums, {.op = comm::ReduceOp::Mean});
  at::Tensor peak = at::full({1}, memory::MemoryAccount::process().peak(), at::kLong);
  comm::all_reduce(trainers_, peak, {.op = comm::ReduceOp::Max});
  metrics.bubble = sums[0].item<double>();
  metrics.tokens_per_s =
      static_cast<double>(config_.training.global_batch_size) / sums[1].item<double>();
  metrics.peak_bytes = peak.item<int64_t>();
}

double RecommenderJob::evaluate() {
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (int64_t i = 0; i < config_.validation.steps; ++i)
    sum += loss_of(share(kFirstHeldOut + i * config_.training.global_batch_size))
               .item<double>();
  return agree_on(sum / static_cast<double>(config_.validation.steps), false).first;
}

TrainResult RecommenderJob::run() {
  comm::check_everywhere(trainers_, {.module = "train"}, [&] { open_output(); });
  say(describe_recommender(config_, ranks_));
  result_.held_out_before = evaluate();
  say(text("held-out loss before: ", rounded(*result_.held_out_before)));
  const auto began = Clock::now();
  const int64_t steps = config_.training.steps;
  while (step_ < steps && !result_.stopped) {
    StepMetrics metrics = step();
    const bool last = step_ == steps || result_.stopped;
    const int64_t freq = config_.validation.freq;
    if (last || (freq > 0 && step_ % freq == 0))
      result_.held_out_after = metrics.held_out_loss = evaluate();
    result_.last_loss = metrics.loss;
    if (metrics_)
      metrics_->write(metrics);
    if (progress_)
      progress_->show(
          metrics,
          seconds_from(began) / static_cast<double>(step_) *
              static_cast<double>(steps - step_));
    if (options_.on_step)
      options_.on_step(metrics);
  }
  result_.step = step_;
  if (leads())
    conclude();
  comm::all_reduce(trainers_, at::zeros({1}));  // the table stays until all is written
  return result_;
}

void RecommenderJob::save() const {
  NamedTensors tensors = optimizer_.parameters();
  tensors.emplace_back("table", table_.read("weight", 0, rows_of(config_)));
  ckpt::write_safetensors(folder_.path / "weights.safetensors", tensors);
}

void RecommenderJob::conclude() {
  save();
  if (progress_)
    progress_->finish();
  if (options_.report == nullptr)
    return;
  *options_.report << "\nheld-out loss: " << rounded(*result_.held_out_before) << " -> "
                   << rounded(*result_.held_out_after) << "\n";
  if (result_.stopped)
    *options_.report << "\nstopped after step " << result_.step
                     << "; a recommender begins anew\n";
  *options_.report << "\nwritten to " << folder_.path.string()
                   << ": config.toml, metrics.jsonl, weights.safetensors" << std::endl;
}

}  // namespace

RecommenderRanks recommender_ranks(const Config& config, int cores) {
  RecommenderRanks ranks{
      .trainers = static_cast<int>(config.parallelism.ranks),
      .servers =
          static_cast<int>(std::max<int64_t>(1, config.parallelism.embedding_servers))};
  if (ranks.trainers == 0)
    for (ranks.trainers = std::max(1, cores);
         config.training.global_batch_size % ranks.trainers != 0;)
      --ranks.trainers;
  return ranks;
}

RecommenderRanks share_ranks(const Config& config, int world_size) {
  RecommenderRanks ranks = recommender_ranks(config, 1);
  ranks.trainers = world_size - ranks.servers;
  const int64_t asked = config.parallelism.ranks;
  if (ranks.trainers < 1 || (asked != 0 && asked != ranks.trainers))
    throw InvalidArgument(text(
        "[train] expected a world of ",
        asked == 0 ? "one or more" : text(asked),
        " trainers (parallelism.ranks) and ",
        ranks.servers,
        " servers (parallelism.embedding_servers), got ",
        world_size,
        " ranks; start as many as both together"));
  if (config.training.global_batch_size % ranks.trainers != 0)
    throw InvalidArgument(text(
        "[train] expected training.global_batch_size to be a multiple of the trainers, "
        "got ",
        config.training.global_batch_size,
        " and ",
        ranks.trainers,
        "; change one of them"));
  return ranks;
}

std::string describe_recommender(const Config& config, const RecommenderRanks& ranks) {
  const int64_t rows = rows_of(config), dim = config.model.dim,
                width = width_of(config);
  return text(
      "model: recommender, ",
      with_thousands(rows * dim + (2 * dim + 1) * width + width + 1),
      " parameters; a table of ",
      with_thousands(rows),
      " rows of ",
      dim,
      " (",
      users_of(config),
      " users, ",
      rows - users_of(config),
      " items) and two layers; data: generated clicks\nranks: ",
      ranks.all(),
      " (",
      ranks.trainers,
      " trainers, ",
      config.training.global_batch_size / ranks.trainers,
      " clicks a step each; ",
      ranks.servers,
      ranks.servers == 1 ? " server" : " servers",
      " of the table)");
}

TrainResult train_recommender(
    const comm::Group& world,
    const Config& config,
    const TrainerOptions& options,
    const std::function<void(rpc::AgentOptions&)>& edit) {
  const RecommenderRanks ranks = share_ranks(config, world.size());
  const bool trains = world.rank() < ranks.trainers;
  const comm::Group trainers = world.split(trains ? 0 : -1);
  rpc::AgentOptions agent_options{
      .name = worker_name(ranks, world.rank()),
      .role = trains ? "trainer" : "server",
      .rank = world.rank(),
      .world_size = world.size()};
  if (edit)
    edit(agent_options);
  rpc::Agent agent(dist_autograd::with_gradients(std::move(agent_options)));
  TrainResult result;
  if (trains)
    result = RecommenderJob(trainers, agent, ranks, config, options).run();
  // Servers come here at once, and wait for as long as it takes.
  agent.shutdown({.timeout = std::chrono::hours(24 * 365)});
  result.stopped =
      comm::share_text(world, result.stopped ? "stopped" : "") == "stopped";
  return result;
}

}  // namespace trireme::train
