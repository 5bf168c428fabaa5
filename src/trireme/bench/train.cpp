#include "trireme/bench/train.h"

#include <iostream>
#include <memory>

#include "trireme/bench/peer.h"
#include "trireme/bench/side.h"
#include "trireme/bench/train_runs.h"
#include "trireme/bench/train_start.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/core/scratch_folder.h"
#include "trireme/launch/variables.h"

namespace trireme::bench {
namespace {

namespace fs = std::filesystem;

/// 1.3 million parameters: not much larger than the default of `trireme train`.
TrainJob small_model() {
  return {.dim = 128, .layers = 6, .heads = 4, .batch = 32, .microbatch = 4};
}

std::string sampled_config(const TrainJob& job) {
  return text(
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": )",
      job.dim,
      R"(, "n_layer": )",
      job.layers,
      R"(, "n_head": )",
      job.heads,
      R"(, "vocab_size": )",
      job.vocab,
      R"(, "n_positions": )",
      job.prompt + job.new_tokens,
      R"(, "bos_token_id": null, "eos_token_id": null})");
}

/// Both sides of one case.
class TrainSides {
 public:
  TrainSides(const MeasureOptions& options, const PeerCommand& peer, int ranks)
      : program_(options.program),
        peer_(peer.command),
        ours_("ours", ranks, {program_.string(), "bench", "--worker", "train"}),
        torch_("torch", ranks, peer.command, peer.missing) {}

  const std::string& missing() const { return torch_.missing(); }

  Record measure(TrainCase one) {
    Record record{
        .name = one.name,
        .goal = one.goal,
        .unit = one.kind == "start" ? "us" : "tokens/s"};
    Round ours, torch;
    if (one.kind == "start") {
      prepare_start(one, ours, torch);
    } else {
      if (one.kind == "sample")
        prepare_sample(one);
      ours = [this, one] { return ask(ours_, one.job); };
      torch = [this, one] { return ask(torch_, one.job); };
    }
    measure_in_turn(record, ours, guarded(torch), one.plan);
    // Half a peer would be compared with the whole of ours.
    if (!missing().empty())
      record.peer = {};
    return record;
  }

 private:
  static std::vector<double> ask(RankSide& side, const TrainJob& job) {
    std::vector<double> figures = slowest(side.ask(to_line(job), kAnswerLimit));
    for (double& figure : figures)
      figure = static_cast<double>(tokens_of(job)) / figure;
    return figures;
  }

  Round guarded(const Round& peer) {
    return [this, peer]() -> std::vector<double> {
      if (!missing().empty())
        return {};
      try {
        return peer();
      } catch (const Error& error) {
        torch_.give_up(error.what());
        return {};
      }
    };
  }

  void prepare_start(const TrainCase& one, Round& ours, Round& torch) {
    std::string words;
    for (int i = 0; i < 20000; ++i)
      words += text("row ", i, " of oars\n");
    const StartJob job{
        .model = one.job, .ranks = one.ranks, .data = folder_.write("text.txt", words)};
    ours = [this, job, number = 0]() mutable {
      const fs::path run = folder_.path() / text("run-", ++number);
      return std::vector{
          time_until(our_start_command(program_, job, run), kOurFirstStep)};
    };
    torch = [this, job] {
      return std::vector{time_until(
          peer_start_command(peer_, job, launch::free_port()), kPeerFirstStep)};
    };
  }

  /// The peer makes the model's weights, and both must draw the same tokens from it.
  void prepare_sample(TrainCase& one) {
    folder_.write("config.json", sampled_config(one.job));
    one.job.folder = folder_.path().string();
    TrainJob tokens = one.job;
    tokens.op = "tokens";
    const auto draw = [&](RankSide& side) {
      return side.ask(to_line(tokens), kAnswerLimit).front();
    };
    const std::vector<double> theirs = guarded([&] { return draw(torch_); })();
    const std::vector<double> mine = draw(ours_);
    if (!theirs.empty() && mine != theirs)
      throw Error(
          "[bench] expected the same tokens from both sides, got different ones; this "
          "is "
          "a "
          "bug");
  }

  ScratchFolder folder_;
  fs::path program_;
  std::vector<std::string> peer_;
  RankSide ours_;
  RankSide torch_;
};

// Whether a case is about the program as a whole, beside itself.
bool runs_program(const TrainCase& one) {
  return one.kind == "crowd" || one.kind == "layout";
}

Record measure_program(const MeasureOptions& options, const TrainCase& one) {
  Record record = one.kind == "crowd"
                      ? measure_crowd(options.program, one.ranks, one.plan.rounds)
                      : measure_layout(options.program, one.job.batch, one.plan.rounds);
  record.name = one.name;
  record.goal = one.goal;
  return record;
}

}  // namespace

std::vector<TrainCase> train_cases(const MeasureOptions& options) {
  using std::chrono::seconds;
  const auto plan = [&](int quick, int full, seconds budget) -> RoundPlan {
    if (options.rounds > 0)
      return plan_rounds(options);
    return {
        .rounds = options.quick ? quick : full,
        .budget = options.quick ? seconds(15) : budget};
  };
  const RoundPlan steps = plan(3, 9, seconds(60));
  const RoundPlan runs = plan(1, 3, seconds(60));
  TrainJob pipeline{.warm_up = 0, .repetitions = 2};
  TrainJob parallel = pipeline;
  parallel.layout = "data parallel";
  TrainJob sampled = small_model();
  sampled.op = "sample";
  sampled.warm_up = 0;
  return {
      {.name = "10 M GPT, 2-stage pipeline",
       .job = pipeline,
       .goal = 1.1,
       .plan = steps},
      {.name = "10 M GPT, 2-rank data parallel",
       .job = parallel,
       .goal = 1.1,
       .plan = steps},
      {.name = "command to the end of the first step, 2 ranks",
       .kind = "start",
       .job = small_model(),
       .goal = 3,
       .plan = plan(1, 7, seconds(60))},
      {.name = "greedy sampling, 1.3 M GPT",
       .kind = "sample",
       .job = sampled,
       .ranks = 1,
       .goal = 1.5,
       .plan = plan(5, 20, seconds(20))},
      {.name = "4 ranks on 2 cores, beside 2 ranks there",
       .kind = "crowd",
       .ranks = 4,
       .goal = 0.7,
       .plan = runs},
      {.name = "8 ranks on 2 cores, beside 2 ranks there",
       .kind = "crowd",
       .ranks = 8,
       .goal = 0.7,
       .plan = runs},
      {.name = "layout chosen for a batch of 16, beside the best",
       .kind = "layout",
       .job = {.batch = 16},
       .goal = 0.95,
       .plan = runs},
      {.name = "layout chosen for a batch of 64, beside the best",
       .kind = "layout",
       .job = {.batch = 64},
       .goal = 0.95,
       .plan = runs}};
}

int64_t tokens_of(const TrainJob& job) {
  return job.op == "step" ? job.batch * job.sequence : job.new_tokens;
}

BenchReport bench_train(const MeasureOptions& options) {
  const std::vector<TrainCase> cases =
      choose_cases(train_cases(options), options.only, [](const TrainCase& one) {
        return one.name;
      });
  PeerCommand peer = find_peer("train", Environment::of_process(), options.program);
  const std::string machine = to_string(describe_machine());
  const double load = load_average();
  BenchReport report;
  std::unique_ptr<TrainSides> sides;
  std::string kind;
  for (const TrainCase& one : cases) {
    std::cerr << "bench train: " << one.name << std::endl;
    // Cases of a kind share processes; others would be disturbed by idle ones.
    if (kind != one.kind) {
      sides.reset();
      if (!runs_program(one))
        sides = std::make_unique<TrainSides>(options, peer, one.ranks);
      kind = one.kind;
    }
    report.records.push_back(
        sides ? sides->measure(one) : measure_program(options, one));
    Record& record = report.records.back();
    record.bench = "train";
    record.machine = machine;
    record.load = load;
    if (sides)
      peer.missing = sides->missing();
  }
  report.no_peer = peer.missing;
  return report;
}

}  // namespace trireme::bench
