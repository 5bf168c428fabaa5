#include "trireme/train/training_report.h"

#include <algorithm>
#include <ostream>

#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/data/utf8.h"
#include "trireme/pipe/action_costs.h"
#include "trireme/sched/draw.h"
#include "trireme/train/generate.h"
#include "trireme/train/lr_schedule.h"
#include "trireme/train/progress.h"

namespace trireme::train {
namespace {

constexpr const char* kPrompt = "The ";
// What fits a terminal.
constexpr int kPictureWidth = 100;
constexpr int kMostRows = 16;

/// Text from the pipeline itself, where it is; the same from each.
std::string take_sample(const ReportRequest& request, Engine& engine) {
  StageDecoders stages{
      .rank_of_stage = engine.layout().schedule.rank_of_stage, .decoders = {}};
  for (const pipe::LayerList& layers : engine.layers())
    stages.decoders.push_back(std::make_unique<model::Decoder>(layers));
  const int64_t positions = request.plan.max_positions;  // what it was trained on
  std::vector<int64_t> prompt = request.tokenizer->encode(kPrompt);
  if (positions > 0 && std::ssize(prompt) >= positions)
    prompt.resize(static_cast<size_t>(std::max<int64_t>(1, positions - 1)));
  const Generated made = generate(
      engine.pipeline().group(),
      stages,
      prompt,
      {.max_new_tokens = 300, .vocabulary = request.tokenizer->vocab_size()},
      positions);
  return data::as_utf8(request.tokenizer->decode(made.ids));
}

/// The sample, or why there is none: a job that is done does not fail for it. What all
/// ranks refuse alike is caught here; what one rank alone meets ends the others too.
struct Sample {
  std::string text;
  std::string trouble;
};

Sample try_sample(const ReportRequest& request, Engine& engine) {
  try {
    return {take_sample(request, engine), ""};
  } catch (const InvalidArgument& error) {
    return {"", error.what()};
  } catch (const NotSupported& error) {
    return {"", error.what()};
  }
}

/// The last step as a terminal shows it, planned and measured.
std::string show_step(const Layout& layout, const pipe::StepReport& step) {
  std::string out;
  if (layout.degrees.pp <= kMostRows) {
    if (step.predicted)
      out += text(
          "\nthe schedule, planned:\n",
          sched::draw_time_rows(*step.predicted, kPictureWidth));
    out += text(
        "\nthe last step, measured:\n",
        sched::draw_time_rows(step.measured, kPictureWidth));
  }
  return text(out, "\nthe last step:\n", pipe::to_text(step));
}

std::string where(const ReportRequest& request, const TrainResult& result) {
  std::string out = text(
      "\nwritten to ",
      request.folder.path.string(),
      ": config.toml, metrics.jsonl, schedule.svg, ",
      request.last_step.predicted ? "schedule_planned.svg, " : "",
      "trace.json");
  if (!result.checkpoint.empty())
    out += text("\ncheckpoint: ", result.checkpoint);
  return out + "\n";
}

/// A schedule that has begun to fall would raise the rate again if it were stretched
/// over more steps.
std::string keep_rate(const Config& config) {
  const bool falls = config.lr_scheduler.decay_type != "constant" &&
                     schedule_steps(config) > config.lr_scheduler.warmup_steps;
  return falls ? text(" --lr_scheduler.total_steps ", schedule_steps(config)) : "";
}

/// A word as a shell takes it.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos)
    return word;
  std::string out = "'";
  for (const char letter : word)
    out += letter == '\'' ? "'\\''" : std::string(1, letter);
  return out + "'";
}

std::string how_to_go_on(const ReportRequest& request, const TrainResult& result) {
  const std::string program = shell_word(request.options.program);
  const std::string config = shell_word(request.folder.config().string());
  if (result.stopped && result.checkpoint.empty())
    return "no checkpoint was written: checkpoint.enable is false\n";
  if (result.stopped)
    return text(
        "go on with: ", program, " train ", config, " --checkpoint.resume auto\n");
  std::string out;
  if (!result.checkpoint.empty())
    out += text(
        "sample it:  ",
        program,
        " sample --model ",
        shell_word(result.checkpoint),
        " --prompt \"The pipeline\"\n",
        "train on:   ",
        program,
        " train ",
        config,
        " --checkpoint.resume auto --training.steps ",
        2 * result.step,
        keep_rate(request.config),
        "\n            (the learning rate goes on at ",
        learning_rate(request.config, result.step),
        ")\n");
  return text(out, "your text:  ", program, " train --data.path FILE.txt\n");
}

}  // namespace

sched::Costs costs_of(const ScheduleChoice& choice, const pipe::StepReport& step) {
  sched::Costs costs;
  costs.stages = stage_costs(choice.layout, choice.layers);
  costs.message_bytes = choice.message_bytes;
  costs.links = choice.links;
  if (choice.measured)
    return costs;
  pipe::ActionCosts measured;
  measured.add(step);
  for (size_t i = 0; i < costs.stages.size(); ++i)
    costs.stages[i] =
        measured.of_stage(static_cast<int>(i), costs.stages[i].weight_bytes);
  costs.message_bytes = 0;  // it is in the time that they were seen to travel
  costs.links = measured.links();
  return costs;
}

void write_pictures(const RunFolder& folder, const pipe::StepReport& step) {
  write_durably(folder.picture(), pipe::to_svg(step));
  if (step.predicted)
    write_durably(
        folder.planned_picture(), sched::draw_svg(step.schedule, *step.predicted));
  write_durably(folder.trace(), pipe::to_trace(step));
}

std::string rounded(double value) {
  return fixed(value, 3);
}

std::string conclude_run(
    const ReportRequest& request, Engine& engine, const TrainResult& result) {
  const bool sampled = !result.stopped && request.tokenizer != nullptr;
  const Sample sample = sampled ? try_sample(request, engine) : Sample{};
  if (request.world.rank() != 0 || request.options.report == nullptr)
    return sample.text;
  std::ostream& out = *request.options.report;
  if (!result.stopped)
    out << show_step(engine.layout(), request.last_step);
  if (result.held_out_before && result.held_out_after)
    out << "\nheld-out loss: " << rounded(*result.held_out_before) << " -> "
        << rounded(*result.held_out_after) << "\n";
  if (!sample.text.empty())
    out << "\na sample:\n" << sample.text << "\n";
  if (!sample.trouble.empty())
    out << "\nno sample: " << sample.trouble << "\n";
  if (result.stopped)
    out << "\nstopped after step " << result.step << "\n";
  out << where(request, result) << how_to_go_on(request, result) << std::flush;
  return sample.text;
}

}  // namespace trireme::train
