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
  const Degrees& degrees;
  const model::ModelPlan& plan;
  const ScheduleChoice& choice;
  const RunFolder& folder;
  const data::Tokenizer& tokenizer;
  const TrainerOptions& options;
};

/// Draws the last step to RUN/schedule.svg and RUN/trace.json, takes a sample from the
/// model, prints both with where things lie and how to go on (rank 0), and gives the
/// sample. Of a run that was stopped only the last. Collective.
std::string conclude_run(
    const ReportRequest& request, Engine& engine, const TrainResult& result);

/// A number with three digits behind the point.
std::string rounded(double value);

}  // namespace trireme::train
