// The end of a run: a sample, a picture of the last step, and how to go on.
#pragma once
#include <string>

#include "trireme/comm/group.h"
#include "trireme/data/tokenizer.h"
#include "trireme/model/model_plan.h"
#include "trireme/train/engine.h"
#include "trireme/train/layout.h"
#include "trireme/train/run_folder.h"
#include "trireme/train/schedule_choice.h"
#include "trireme/train/trainer.h"

namespace trireme::train {

/// What the end of a run is made from.
struct ReportRequest {
  const comm::Group& world;
  const Config& config;
  const model::ModelPlan& plan;
  const pipe::StepReport& last_step;
  const RunFolder& folder;
  /// Null: there is no sample to show.
  const data::Tokenizer* tokenizer;
  const TrainerOptions& options;
};

/// The costs of a choice's stages, to predict with: those it was made from, or else
/// what this step's own actions took.
sched::Costs costs_of(const ScheduleChoice& choice, const pipe::StepReport& step);

/// Draws a step to RUN/schedule.svg, what was planned to RUN/schedule_planned.svg if it
/// was, and both to RUN/trace.json.
void write_pictures(const RunFolder& folder, const pipe::StepReport& step);

/// Takes a sample from the model, prints it with the last step, where things lie and
/// how to go on (rank 0), and gives it; if none can be taken, it prints why. Of a run
/// that was stopped only how. Collective.
std::string conclude_run(
    const ReportRequest& request, Engine& engine, const TrainResult& result);

/// A number with three digits after the point.
std::string rounded(double value);

}  // namespace trireme::train
