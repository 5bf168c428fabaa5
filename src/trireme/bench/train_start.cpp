#include "trireme/bench/train_start.h"

#include <chrono>

#include <nlohmann/json.hpp>

#include "trireme/bench/side.h"
#include "trireme/core/error.h"
#include "trireme/launch/child.h"

namespace trireme::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

}  // namespace

std::vector<std::string> our_start_command(
    const std::filesystem::path& program,
    const StartJob& job,
    const std::filesystem::path& folder) {
  const TrainJob& model = job.model;
  return {
      (program.parent_path() / "trireme").string(),
      "train",
      "--job.dump_folder",
      folder.string(),
      "--data.path",
      job.data.string(),
      "--model.dim",
      text(model.dim),
      "--model.n_layers",
      text(model.layers),
      "--model.n_heads",
      text(model.heads),
      "--model.tie_embeddings",
      "false",
      "--training.steps",
      "1",
      "--training.seq_len",
      text(model.sequence),
      "--training.global_batch_size",
      text(model.batch),
      "--parallelism.ranks",
      text(job.ranks),
      "--parallelism.pipeline_parallel_degree",
      text(job.ranks),
      "--parallelism.pipeline_parallel_schedule",
      "1F1B",
      "--parallelism.pipeline_parallel_microbatch_size",
      text(model.microbatch),
      "--checkpoint.enable",
      "false",
      "--metrics.progress",
      "lines"};
}

std::vector<std::string> peer_start_command(
    const std::vector<std::string>& peer, const StartJob& job, int port) {
  Json object = Json::parse(to_line(job.model));
  object["ranks"] = job.ranks;
  object["port"] = port;
  object["data"] = job.data.string();
  std::vector<std::string> command = peer;
  command.insert(command.end(), {"--start", object.dump()});
  return command;
}

double time_until(const std::vector<std::string>& command, const std::string& mark) {
  const auto start = Clock::now();
  const launch::ChildResult result = launch::run_child(
      {.command = command,
       .variables = side_variables(),
       .limit = std::chrono::minutes(2),
       .mark = mark});
  if (!result.ok() || !result.marked)
    throw Error(text(
        "[bench] expected a first step of training, got ",
        launch::failure_text(result),
        "; its messages:\n",
        result.err));
  return std::chrono::duration<double, std::micro>(*result.marked - start).count();
}

}  // namespace trireme::bench
