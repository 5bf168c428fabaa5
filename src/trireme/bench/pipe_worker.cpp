#include "trireme/bench/pipe_worker.h"

#include <chrono>
#include <memory>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/executor.h"
#include "trireme/bench/executor.h"
#include "trireme/bench/job.h"
#include "trireme/bench/protocol.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/clock.h"
#include "trireme/core/error.h"
#include "trireme/memory/account.h"
#include "trireme/memory/caching_allocator.h"
#include "trireme/pipe/overlap_thread.h"
#include "trireme/pipe/pipeline.h"
#include "trireme/pipe/profile.h"
#include "trireme/sched/generate.h"

namespace trireme::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using pipe::Tensors;
using torch::autograd::impl::gradient_edge;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void drop_gradients(const pipe::NamedTensors& parameters) {
  for (const auto& [name, parameter] : parameters)
    parameter.mutable_grad() = at::Tensor();
}

/// Forward and backward of the whole model on one thread, by hand.
class WholeModel {
 public:
  explicit WholeModel(const PipeModel& model)
      : stage_(make_layers(model, 0, model.layers)),
        input_(make_batch(model, 1).slice(0, 0, 1).clone().set_requires_grad(true)),
        target_(make_batch(model, 2).slice(0, 0, 1).clone()),
        leaf_(gradient_edge(input_).function) {}

  autograd::Roots forward() const {
    const at::Tensor loss = squared_error(stage_->forward({input_}), {target_});
    return {{gradient_edge(loss)}, {at::ones({})}};
  }

  double backward(const std::string& how) {
    autograd::Roots roots = forward();
    const auto start = Clock::now();
    if (how == "engine") {
      torch::autograd::Engine::get_default_engine().execute(
          roots.edges, roots.gradients, false, false, true, {});
    } else if (how == "fused") {
      executor_.backward(std::move(roots), {.inputs = {&leaf_, 1}});
    } else {
      autograd::WeightRest weights;
      executor_.input_pass(std::move(roots), {.inputs = {&leaf_, 1}}, weights);
      executor_.weight_pass(std::move(weights), {});
    }
    const double time = since(start);
    drop_gradients(stage_->parameters());
    input_.mutable_grad() = at::Tensor();
    return time;
  }

  double forward_and_backward(bool at_once) {
    autograd::Roots roots = forward();
    const auto start = Clock::now();
    const auto there = [&] { executor_.backward(std::move(roots), {}); };
    if (at_once) {
      second_.run_both([this] { forward(); }, there);
    } else {
      forward();
      there();
    }
    const double time = since(start);
    drop_gradients(stage_->parameters());
    input_.mutable_grad() = at::Tensor();
    return time;
  }

 private:
  pipe::StagePtr stage_;
  at::Tensor input_;
  at::Tensor target_;
  autograd::NodePtr leaf_;
  autograd::Executor executor_;
  pipe::OverlapThread second_;
};

std::vector<pipe::Stage> make_stages(
    const PipeModel& model, const std::vector<int>& owners, int rank) {
  const int each = model.layers / static_cast<int>(owners.size());
  std::vector<pipe::Stage> stages;
  for (const int stage : sched::stages_of(owners, rank))
    stages.push_back({stage, make_layers(model, stage * each, (stage + 1) * each)});
  return stages;
}

/// The time that the clock and the notes of a step take, without the step.
double note_again(const pipe::Timeline& step, pipe::Timeline& again) {
  const memory::MemoryAccount account;
  again.actions.clear();
  const auto start = Clock::now();
  for (const pipe::ActionTime& one : step.actions) {
    const int64_t begin = now_ns();
    pipe::note_end(again, one.action, begin, account.live());
  }
  return since(start);
}

/// How long a message is on its way from the first rank to the second.
double travel(const sched::Costs& costs) {
  if (costs.links.empty())
    return 0;
  const sched::Link& first = costs.links.front();
  return first.latency + costs.message_bytes / first.bandwidth;
}

std::vector<int> owners_for(const std::string& schedule, int ranks) {
  if (schedule.empty())
    return {0};
  const sched::ScheduleInfo& info = sched::find_schedule(schedule);
  return sched::map_stages(info.map, ranks, ranks * info.usual_stages);
}

}  // namespace

/// A model ready to train, as one job after the other asks for it.
struct PipeWorker::Prepared {
  Prepared(const comm::Group& group, const PipeJob& job)
      : owners(owners_for(job.schedule, group.size())),
        pipeline(
            make_stages(job.model, owners, group.rank()),
            group,
            squared_error,
            {.schedule = job.schedule.empty() ? "1F1B" : job.schedule,
             .microbatches = job.model.microbatches}) {
    if (owners.front() == group.rank())
      batch.inputs = {make_batch(job.model, 1)};
    if (owners.back() == group.rank())
      batch.targets = {make_batch(job.model, 2)};
  }
  std::vector<int> owners;
  pipe::Pipeline pipeline;
  pipe::Batch batch;
};

PipeWorker::PipeWorker(comm::Group world)
    : world_(std::move(world)), alone_(world_.split(world_.rank())) {}

PipeWorker::~PipeWorker() = default;

/// Times `once` on the first rank, while the others wait.
std::vector<double> PipeWorker::work_alone(
    const PipeJob& job, const std::function<double()>& once) {
  std::vector<double> row;
  for (int i = 0; i < job.warm_up + job.repetitions; ++i) {
    comm::barrier(world_);
    const double time = world_.rank() == 0 ? once() : 0;
    if (i >= job.warm_up)
      row.push_back(time);
  }
  return row;
}

/// The same for two things that take turns.
std::vector<double> PipeWorker::work_in_turn(
    const PipeJob& job, const std::function<double(bool first)>& once) {
  PipeJob both = job;
  both.warm_up *= 2;
  both.repetitions *= 2;
  return work_alone(both, [&once, first = false]() mutable {
    first = !first;
    return once(first);
  });
}

std::vector<double> PipeWorker::work(const PipeJob& job) {
  std::vector<double> row;
  if (job.op == "graph") {
    GraphBackward graph(job.model.layer);
    return work_in_turn(job, [&](bool ours) { return graph.run(ours); });
  }
  if (job.op != "step" && job.op != "profile" && job.op != "timing") {
    WholeModel whole(job.model);
    if (job.op == "overlap")
      return work_in_turn(
          job, [&](bool at_once) { return whole.forward_and_backward(at_once); });
    const std::string other = job.op == "split_engine" ? "engine" : "fused";
    return work_in_turn(
        job, [&](bool split) { return whole.backward(split ? "split" : other); });
  }
  const bool takes_part = !job.schedule.empty() || world_.rank() == 0;
  PipeJob same = job;
  same.op = {};
  same.warm_up = same.repetitions = 0;
  if (const std::string key = to_line(same); key != key_) {
    prepared_.reset();
    if (takes_part)
      prepared_ =
          std::make_unique<Prepared>(job.schedule.empty() ? alone_ : world_, job);
    key_ = key;
  }
  if (job.op == "profile") {
    if (!takes_part)
      return row;
    const sched::CostFile costs = pipe::profile(
        prepared_->pipeline, prepared_->batch, {.steps = job.repetitions});
    for (const sched::StageCosts& stage : costs.costs.stages)
      row.insert(
          row.end(),
          {stage.forward, stage.input_grad, stage.weight_grad, stage.backward});
    row.push_back(travel(costs.costs));
    return row;
  }
  if (job.op == "timing") {
    prepared_->pipeline.step(prepared_->batch);
    drop_gradients(prepared_->pipeline.parameters());
    pipe::Timeline again = prepared_->pipeline.timeline();
    return work_alone(
        job, [&] { return note_again(prepared_->pipeline.timeline(), again); });
  }
  for (int i = 0; i < job.warm_up + job.repetitions; ++i) {
    comm::barrier(world_);
    const auto start = Clock::now();
    if (takes_part) {
      prepared_->pipeline.step(prepared_->batch);
      drop_gradients(prepared_->pipeline.parameters());
    }
    comm::barrier(world_);
    if (i >= job.warm_up)
      row.push_back(since(start));
  }
  return row;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    PipeModel, layer, layers, width, sequence, microbatches)

// The model's members stand among the job's own.
inline void to_json(Json& object, const PipeJob& job) {
  object = job.model;
  object.update(Json{
      {"op", job.op},
      {"schedule", job.schedule},
      {"warm_up", job.warm_up},
      {"repetitions", job.repetitions}});
}
inline void from_json(const Json& object, PipeJob& job) {
  object.get_to(job.model);
  object.at("op").get_to(job.op);
  object.at("schedule").get_to(job.schedule);
  object.at("warm_up").get_to(job.warm_up);
  object.at("repetitions").get_to(job.repetitions);
}

std::string to_line(const PipeJob& job) {
  return Json(job).dump();
}

PipeJob parse_pipe_job(const std::string& line) {
  return parse_job<PipeJob>(line);
}

int run_pipe_worker(std::istream& in, std::ostream& out) {
  at::set_num_threads(1);
  memory::install_caching_allocator();
  return serve_jobs(in, out, [] {
    const auto worker = std::make_shared<PipeWorker>(comm::init());
    return JobWork([worker](const std::string& line) {
      return worker->work(parse_pipe_job(line));
    });
  });
}

}  // namespace trireme::bench
