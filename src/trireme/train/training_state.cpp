#include "trireme/train/training_state.h"

#include <cmath>
#include <limits>
#include <set>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <nlohmann/json.hpp>

#include "trireme/ckpt/checkpoint.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/proc_text.h"
#include "trireme/model/registry.h"
#include "trireme/model/shared_parameters.h"
#include "trireme/model/weights.h"
#include "trireme/sched/csv.h"
#include "trireme/train/config_origin.h"
#include "trireme/train/resume_check.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kTrainerFile = "trainer.json";

/// What the order of samples and all random numbers follow from.
Json replay_facts(const Config& config) {
  return {
      {"seed", config.training.seed},
      {"global_batch_size", config.training.global_batch_size},
      {"seq_len", config.training.seq_len},
      {"shuffle", config.data.shuffle}};
}

/// So that a job whose schedule was chosen by measuring goes on with the same.
Json layout_json(const Layout& layout) {
  Json ranges = Json::array();
  for (const sched::LayerRange& range : layout.layers)
    ranges.push_back({range.first, range.last});
  return {
      {"schedule", layout.schedule.name},
      {"csv", sched::to_csv(layout.schedule)},
      {"layers", ranges},
      {"pipelines", layout.degrees.dp}};
}

/// A tied parameter's state has the name that its weight is saved under, so that every
/// layout finds it: "exp_avg.lm_head.weight" is "exp_avg.transformer.wte.weight".
std::string saved_name(const model::SharedParameters& names, const std::string& state) {
  const size_t behind = state.find('.') + 1;
  const std::string parameter = state.substr(behind);
  return text(state.substr(0, behind), names.first_name(parameter));
}

/// The states of one stage's parameters.
NamedTensors states_of(
    const NamedTensors& states,
    const pipe::LayerList& layers,
    const model::SharedParameters& names) {
  std::set<std::string> mine;
  for (const auto& [name, tensor] : pipe::parameters(layers))
    mine.insert(name);
  NamedTensors all;
  for (const auto& [name, tensor] : states)
    if (mine.contains(name.substr(name.find('.') + 1)))
      all.emplace_back(saved_name(names, name), tensor);
  return all;
}

TrainingState read_trainer(
    const fs::path& folder, const std::string& json, const Config& config) {
  const Json read = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto whole = [&](const char* key) -> int64_t {
    if (!read.is_object() || !read.contains(key) || !read[key].is_number_integer() ||
        read[key].get<int64_t>() < 0)
      refuse_checkpoint(folder, text("a trainer.json with a number ", key), "none");
    return read[key].get<int64_t>();
  };
  TrainingState state{
      .step = whole("step"),
      .tokens = whole("tokens"),
      .data_tokens = read.contains("data_tokens") ? whole("data_tokens") : 0,
      .schedule_steps = read.contains("schedule_steps") ? whole("schedule_steps") : 0};
  const Json facts = replay_facts(config);
  if (!read.contains("replay") || !read["replay"].is_object())
    refuse_checkpoint(folder, "a trainer.json with replay", "none");
  for (const auto& [key, value] : facts.items())
    if (read["replay"].value(key, Json()) != value)
      refuse_checkpoint(
          folder,
          text(key, " ", value.dump()),
          read["replay"].value(key, Json()).dump());
  return state;
}

/// The float32 masters of a job that computed in lower precision are the weights of one
/// that computes in float32: its own weights would only be their rounded copies.
void load_masters(
    const ckpt::WeightFiles& files,
    const model::SharedParameters& names,
    const Engine& engine) {
  if (engine.dtype() != at::kFloat)
    return;
  for (const auto& [name, tensor] : engine.optimizer().parameters())
    if (const std::string saved = saved_name(names, text("master.", name));
        files.has(saved))
      tensor.detach().copy_(files.view(saved));
}

bool is_finite(const at::Tensor& tensor) {
  // The largest magnitude, which is NaN if one is; and nothing is allocated.
  const double largest = std::numeric_limits<double>::infinity();
  return tensor.numel() == 0 ||
         std::isfinite(at::linalg_vector_norm(tensor, largest).item<double>());
}

/// The first that is not; empty: all are.
std::string find_non_finite(const Engine& engine) {
  for (const auto& [name, tensor] : engine.optimizer().parameters())
    if (!is_finite(tensor.detach()))
      return name;
  for (const auto& [name, tensor] : engine.optimizer().state())
    if (!is_finite(tensor))
      return name;
  return "";
}

bool on_all_ranks(const comm::Group& world, bool mine) {
  at::Tensor least = at::full({1}, mine ? 1 : 0, at::kLong);
  comm::all_reduce(world, least, {.op = comm::ReduceOp::Min});
  return least.item<int64_t>() == 1;
}

}  // namespace

bool is_finite(const comm::Group& world, const Engine& engine) {
  const at::NoGradGuard no_grad;
  return on_all_ranks(world, find_non_finite(engine).empty());
}

fs::path save_state(
    const comm::Group& world,
    const fs::path& root,
    const TrainingState& state,
    const model::ModelPlan& plan,
    const Config& config,
    const std::shared_ptr<const data::Tokenizer>& tokenizer,
    Engine& engine) {
  const std::string odd = find_non_finite(engine);
  if (!on_all_ranks(world, odd.empty()))
    throw InvalidArgument(text(
        "[train] expected finite weights and states to save after step ",
        state.step,
        ", got ",
        odd.empty() ? "others on another rank" : odd,
        "; older checkpoints are kept: go on from one of them with a lower "
        "optimizer.lr"));
  const model::SharedParameters names(plan.tied);
  ckpt::CheckpointContent content;
  content.stages = engine.layout().stages();
  if (engine.writes_checkpoints()) {
    const NamedTensors states = engine.optimizer().state();
    for (size_t i = 0; i < engine.stages().size(); ++i)
      content.parts.push_back(
          {.stage = engine.stages()[i],
           .weights = model::weights_to_save(engine.layers()[i], plan),
           .optimizer = states_of(states, engine.layers()[i], names)});
  }
  const Json trainer{
      {"step", state.step},
      {"tokens", state.tokens},
      {"data_tokens", state.data_tokens},
      {"schedule_steps", state.schedule_steps},
      {"replay", replay_facts(config)},
      {"layout", layout_json(engine.layout())}};
  content.texts["config.json"] = model::config_for_saving(plan, engine.dtype());
  content.texts[kTrainerFile] = trainer.dump(2) + "\n";
  if (tokenizer != nullptr)
    content.texts["tokenizer.json"] = tokenizer->to_json();
  // Where its text ends, and how it likes to be sampled.
  const fs::path assets = config.model.hf_assets_path;
  if (!assets.empty())
    if (const auto generation = read_text_file(assets / "generation_config.json"))
      content.texts["generation_config.json"] = *generation;
  return ckpt::save_checkpoint(
      world,
      root,
      state.step,
      content,
      {.keep = static_cast<int>(config.checkpoint.keep_latest_k)});
}

TrainingState load_state(
    const fs::path& folder,
    const model::ModelPlan& plan,
    const Config& config,
    Engine& engine) {
  const ckpt::Checkpoint checkpoint(folder);
  const TrainingState state =
      read_trainer(folder, checkpoint.text(kTrainerFile), config);
  model::load_weights(engine.layers(), plan, checkpoint.weights());
  engine.optimizer().refresh_masters();
  const model::SharedParameters names(plan.tied);
  const ckpt::WeightFiles files = checkpoint.optimizer();
  const at::NoGradGuard no_grad;
  load_masters(files, names, engine);
  for (const auto& [name, tensor] : engine.optimizer().state()) {
    const std::string saved = saved_name(names, name);
    // A job that now computes in lower precision makes masters of the weights.
    if (!files.has(saved) && name.starts_with("master."))
      continue;
    if (!files.has(saved))
      refuse_checkpoint(folder, text("the optimizer's state ", saved), "none");
    const at::Tensor read = files.view(saved);
    if (read.sizes() != tensor.sizes())
      refuse_checkpoint(
          folder, text(saved, " of sizes ", tensor.sizes()), text(read.sizes()));
    at::Tensor(tensor).copy_(read);
  }
  return state;
}

std::optional<Layout> saved_layout(
    const fs::path& folder, const Degrees& degrees, const BatchShape& batch) {
  const ckpt::Checkpoint checkpoint(folder);
  try {
    const Json saved = Json::parse(checkpoint.text(kTrainerFile)).at("layout");
    Layout layout{.degrees = degrees, .batch = batch, .schedule = {}, .layers = {}};
    layout.schedule =
        sched::parse_csv(saved.at("csv").get<std::string>(), kTrainerFile);
    layout.schedule.name = saved.at("schedule").get<std::string>();
    for (const Json& range : saved.at("layers"))
      layout.layers.push_back({range.at(0).get<int>(), range.at(1).get<int>()});
    const bool fits = layout.schedule.ranks() == degrees.pp &&
                      layout.schedule.microbatches == batch.microbatches &&
                      layout.stages() == static_cast<int>(layout.layers.size());
    return fits ? std::optional(layout) : std::nullopt;
  } catch (const Json::exception& error) {
    refuse_checkpoint(folder, "a trainer.json with a layout", error.what());
  }
}

std::optional<Degrees> saved_degrees(const fs::path& folder) {
  const Json read =
      Json::parse(ckpt::Checkpoint(folder).text(kTrainerFile), nullptr, false);
  const Json layout = read.is_object() ? read.value("layout", Json()) : Json();
  if (!layout.is_object() || !layout.contains("pipelines"))
    return std::nullopt;
  try {
    const auto schedule =
        sched::parse_csv(layout.at("csv").get<std::string>(), kTrainerFile);
    return Degrees{.pp = schedule.ranks(), .dp = layout.at("pipelines").get<int>()};
  } catch (const Json::exception& error) {
    refuse_checkpoint(folder, "a trainer.json with a layout", error.what());
  }
}

std::optional<fs::path> find_resume(const Config& config, const fs::path& checkpoints) {
  const std::string& resume = config.checkpoint.resume;
  if (resume == "never")
    return std::nullopt;
  if (resume == "auto")
    return ckpt::latest_checkpoint(checkpoints);
  about("checkpoint.resume", [&] { return ckpt::Checkpoint(resume).step(); });
  return fs::path(resume);
}

}  // namespace trireme::train
