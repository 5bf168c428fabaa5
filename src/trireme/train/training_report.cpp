#include "trireme/train/training_report.h"

#include <iomanip>
#include <ostream>
#include <sstream>

#include "trireme/data/utf8.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/sched/draw.h"
#include "trireme/sched/index.h"
#include "trireme/train/generate.h"

namespace trireme::train {
namespace {

constexpr const char* kPrompt = "The ";
// A grid with more columns fits no terminal.
constexpr int kMostGridMicrobatches = 16;
constexpr int kMostGridRanks = 8;

/// Text from the pipeline itself, where it is; the same from each.
std::string take_sample(const ReportRequest& request, Engine& engine) {
  StageDecoders stages{.rank_of_stage = engine.layout().schedule.rank_of_stage,
                       .decoders = {}};
  for (const pipe::LayerList& layers : engine.layers())
    stages.decoders.push_back(std::make_unique<model::Decoder>(layers));
  const Generated made = generate(
      engine.pipeline().group(), stages, request.tokenizer.encode(kPrompt),
      {.max_new_tokens = 300}, request.plan.max_positions);
  return data::as_utf8(request.tokenizer.decode(made.ids));
}

sched::Costs costs_of(const ScheduleChoice& choice) {
  sched::Costs costs;
  costs.stages = stage_costs(choice.layout, choice.layers);
  costs.link = choice.link;
  return costs;
}

bool fits_terminal(const Layout& layout) {
  return layout.batch.microbatches <= kMostGridMicrobatches &&
         layout.degrees.pp <= kMostGridRanks;
}

/// Writes the pictures; gives what a terminal can show of them.
std::string draw_step(const ReportRequest& request, Engine& engine) {
  // Costs that were only counted have no seconds to predict with.
  const bool measured = !request.choice.why.empty();
  const pipe::StepReport report = engine.pipeline().report(
      measured ? std::optional(costs_of(request.choice)) : std::nullopt);
  if (request.world.rank() != 0)
    return {};
  write_file(request.folder.picture(), pipe::to_svg(report));
  write_file(request.folder.trace(), pipe::to_trace(report));
  std::string out;
  if (fits_terminal(engine.layout()))
    out += text(
        "\nthe schedule, as planned:\n",
        sched::draw_grid(engine.layout().schedule, /*color=*/false));
  return text(out, "\nthe last step, measured:\n", pipe::to_text(report));
}

std::string where(const RunFolder& folder, const TrainResult& result) {
  std::string out = text(
      "\nwritten to ", folder.path.string(), ": config.toml, metrics.jsonl");
  if (!result.stopped)
    out += ", schedule.svg, trace.json (for ui.perfetto.dev)";
  if (!result.checkpoint.empty())
    out += text("\ncheckpoint: ", result.checkpoint);
  return out + "\n";
}

std::string how_to_go_on(const RunFolder& folder, const TrainResult& result) {
  const std::string config = folder.config().string();
  if (result.stopped)
    return text(
        "go on with: trireme train ", config, " --checkpoint.resume auto\n");
  std::string out;
  if (!result.checkpoint.empty())
    out += text(
        "sample it:  trireme sample --model ", result.checkpoint,
        " --prompt \"The pipeline\"\n", "train on:   trireme train ", config,
        " --checkpoint.resume auto --training.steps ", 2 * result.step, "\n");
  return out + "your text:  trireme train --data.path FILE.txt\n";
}

}  // namespace

std::string rounded(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << value;
  return out.str();
}

std::string conclude_run(
    const ReportRequest& request, Engine& engine, const TrainResult& result) {
  std::string sample;
  std::string picture;
  if (!result.stopped) {
    picture = draw_step(request, engine);
    sample = take_sample(request, engine);
  }
  if (request.world.rank() != 0 || request.options.report == nullptr)
    return sample;
  std::ostream& out = *request.options.report;
  out << picture;
  if (result.held_out_before && result.held_out_after)
    out << "\nheld-out loss: " << rounded(*result.held_out_before) << " -> "
        << rounded(*result.held_out_after) << "\n";
  if (!sample.empty())
    out << "\na sample:\n" << sample << "\n";
  if (result.stopped)
    out << "\nstopped after step " << result.step << "\n";
  out << where(request.folder, result) << how_to_go_on(request.folder, result)
      << std::flush;
  return sample;
}

}  // namespace trireme::train
