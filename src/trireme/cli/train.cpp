#include "trireme/cli/train.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "trireme/cli/layout_trials.h"
#include "trireme/cli/output.h"
#include "trireme/cli/torch_ranks.h"
#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/machine.h"
#include "trireme/launch/job.h"
#include "trireme/train/config_file.h"
#include "trireme/train/config_keys.h"
#include "trireme/train/config_origin.h"
#include "trireme/train/dry_run.h"
#include "trireme/train/model_source.h"
#include "trireme/train/recommender.h"
#include "trireme/train/resume_check.h"
#include "trireme/train/run_folder.h"
#include "trireme/train/run_lock.h"
#include "trireme/train/stop_signal.h"
#include "trireme/train/token_sources.h"
#include "trireme/train/trainer.h"
#include "trireme/train/training_state.h"

namespace trireme::cli {
namespace {

// The parser does not know the keys.
class TrainFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: trireme train [CONFIG.toml] [--section.key VALUE ...] [OPTIONS]\n";
  }
};

struct TrainArguments {
  bool print_config = false;
  bool dry_run = false;
  bool help_keys = false;
};

// The config file, if the first word is one, and then keys.
train::Config read_config(std::vector<std::string> words) {
  train::Config config;
  if (!words.empty() && !words.front().starts_with("--")) {
    train::read_config_file(config, words.front());
    words.erase(words.begin());
  }
  train::read_arguments(config, words);
  train::check_config(config);
  return config;
}

std::string list_keys() {
  std::string out;
  for (const train::Key& key : train::config_keys())
    out += text(
        "--",
        train::full_name(key),
        "\n    ",
        key.does,
        key.does.empty() ? "" : "; ",
        train::allowed_values(key),
        "\n");
  return out;
}

// The columns of the terminal at stderr; 0 if there is none.
int terminal_width() {
  winsize size{};
  if (::isatty(STDERR_FILENO) == 0 || ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0)
    return 0;
  return size.ws_col == 0 ? 80 : size.ws_col;
}

// What the user of `trireme train` can do when another rank has died.
std::string way_on(const train::Config& config) {
  return config.checkpoint.enable && !train::is_recommender(config)
             ? "; to go on from the last checkpoint, give the same command with "
               "--checkpoint.resume auto"
             : "; start the job again";
}

void show_choice(const train::Config& config, const train::LayoutChoice& choice) {
  if (!choice.why.empty() && config.metrics.progress != "none")
    std::cerr << "layout: " << choice.why << std::endl;
}

// As ./trireme, or the shell, has called it.
std::string called_as() {
  const Environment env = Environment::of_process();
  return std::string(env.find("TRIREME_CALLED_AS").value_or("trireme"));
}

// What the first Ctrl-C is answered with: literals, since a signal handler writes them.
const char* stop_notice(const train::Config& config, bool terminal) {
  constexpr const char* kSaves =
      "\r\033[Kstopping after this step, with a checkpoint; Ctrl-C again stops at "
      "once\n";
  constexpr const char* kEnds =
      "\r\033[Kstopping after this step, without a checkpoint (checkpoint.enable is "
      "false); Ctrl-C again stops at once\n";
  constexpr const char* kEndsRecommender =
      "\r\033[Kstopping after this step; Ctrl-C again stops at once\n";
  const char* notice = train::is_recommender(config) ? kEndsRecommender
                       : config.checkpoint.enable    ? kSaves
                                                     : kEnds;
  return terminal ? notice : notice + 4;  // a pipe gets no words for the terminal
}

// Those of a world that is there already, or that is to be started.
train::RecommenderRanks ranks_of_recommender(const train::Config& config) {
  const LaunchEnv launched = read_launch_env(Environment::of_process());
  return launched.launcher == Launcher::None
             ? train::recommender_ranks(config, available_cores())
             : train::share_ranks(config, launched.world_size);
}

int run_training(const TrainPlan& plan) {
  // Ranks inherit it: told to stop while they start, they end as one that can go on.
  const train::StopSignal stop(launch::kResumable);
  const int width = terminal_width();
  const bool given = is_rank();  // then there is a world already, to be shared out
  const bool has_layout = !train::is_recommender(plan.config);
  train::LayoutChoice choice;
  if (!given && has_layout) {
    const LayoutTrials trials = try_layouts(plan);
    if (trials.stopped != 0)
      return trials.stopped;
    choice = trials.choice;
    show_choice(plan.config, choice);
  }
  const auto body = [&](const comm::Group& world) {
    const bool leads = world.rank() == 0;
    stop.defer(leads ? stop_notice(plan.config, width > 0) : nullptr);
    if (given && has_layout) {
      choice = try_layouts(plan, world);
      if (leads)
        show_choice(plan.config, choice);
    }
    try {
      const train::TrainResult result = train::train(
          world,
          plan.config,
          {.progress = &std::cerr,
           .report = &std::cout,
           .terminal = width > 0,
           .width = width > 0 ? width : 80,
           .degrees = has_layout ? std::optional(choice.layout.degrees) : std::nullopt,
           .program = called_as(),
           .should_stop = [&stop] { return stop.raised(); }});
      return result.stopped ? launch::kResumable : 0;
    } catch (const PeerError& error) {
      if (error.rank() == world.rank())
        throw;
      // Told to stop: a peer that was still starting has done so at once.
      if (stop.raised())
        return launch::kResumable;
      throw PeerError(error.rank(), error.what() + way_on(plan.config));
    }
  };
  return run_ranks(
      has_layout ? choice.layout.degrees.ranks()
                 : ranks_of_recommender(plan.config).all(),
      body);
}

// Opens what costs nothing to open: a text for a BPE tokenizer would be read whole.
void check_files(const train::Config& config, const data::Tokenizer* tokenizer) {
  if (tokenizer == nullptr || tokenizer->kind() == "bytes")
    train::open_sources(config);
  if (config.checkpoint.resume != "auto")
    train::find_resume(config, "");
}

// What there is to share out. In a world that is there already all ranks must come to
// the same list, so nothing of a single rank's counts.
train::LayoutRoom room_of(const train::Config& config, const LaunchEnv& launched) {
  if (launched.launcher != Launcher::None)
    return {.ranks = launched.world_size, .cores = launched.world_size, .threads = 1};
  const Environment env = Environment::of_process();
  return {
      .ranks = static_cast<int>(config.parallelism.ranks),
      .cores = available_cores(),
      .threads = env.has("OMP_NUM_THREADS")
                     ? rank_threads(env, available_cores(), launcher_cores())
                     : 0,
      .memory_bytes = static_cast<double>(available_memory_bytes())};
}

// The layout of the checkpoint that a job goes on from, where it is still possible: so
// that it goes on bit for bit.
void keep_layout(TrainPlan& plan) {
  const train::Config& config = plan.config;
  if (config.checkpoint.resume == "never")
    return;
  const std::filesystem::path run = train::find_run_folder(config);
  if (run.empty() && config.checkpoint.resume == "auto")
    return;  // there is nothing to go on from yet
  const auto checkpoint = train::find_resume(config, run / config.checkpoint.folder);
  if (!checkpoint)
    return;
  train::check_resume(*checkpoint, plan.model, config);
  const auto before = train::saved_degrees(*checkpoint);
  if (!before)
    return;
  const auto same =
      std::find_if(plan.layouts.begin(), plan.layouts.end(), [&](const auto& one) {
        return one.degrees == *before;
      });
  if (same != plan.layouts.end())
    plan.layouts = {*same};
}

// All that can be wrong is found here, before ranks start. Gives the job in words.
std::string check_job(TrainPlan& plan) {
  const train::Config& config = plan.config;
  if (train::is_recommender(config))
    return train::describe_recommender(config, ranks_of_recommender(config)) + "\n";
  const auto tokenizer = train::open_tokenizer(config);
  const auto model =
      train::describe_model(config, train::vocabulary_of(tokenizer.get()));
  train::check_demo_values(config, model);
  plan.model = model.plan;
  check_files(config, tokenizer.get());
  const LaunchEnv launched = read_launch_env(Environment::of_process());
  plan.layouts = train::list_layouts(config, plan.model, room_of(config, launched));
  keep_layout(plan);
  return train::dry_run(config, plan.model, plan.layouts.front().degrees);
}

// Before anything is tried, where ranks are still to be started: of ranks that are here
// already the first may have the lock.
void check_folder(const train::Config& config) {
  if (!is_rank())
    train::check_unlocked(train::find_run_folder(config));
}

int run(const TrainArguments& arguments, const std::vector<std::string>& words) {
  if (arguments.help_keys) {
    std::cout << list_keys();
    return 0;
  }
  TrainPlan plan;
  try {
    plan.config = read_config(words);
  } catch (const Error& error) {
    std::cerr << "trireme: " << error.what() << "\n";
    return kWrongUsage;
  }
  if (arguments.print_config) {
    std::cout << train::to_toml(plan.config);
    return 0;
  }
  try {
    const std::string described = check_job(plan);
    if (arguments.dry_run) {
      if (read_launch_env(Environment::of_process()).rank == 0)
        std::cout << described;
      return 0;
    }
    check_folder(plan.config);
  } catch (const Error& error) {
    std::cerr << "trireme: " << train::with_origins(plan.config, error.what()) << "\n";
    return kWrongUsage;
  }
  return run_training(plan);
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  CLI::App* sub = app.add_subcommand(
      "train", "Train a language model: pipeline and data parallel, on this machine");
  auto arguments = std::make_shared<TrainArguments>();
  sub->allow_extras();
  sub->formatter(std::make_shared<TrainFormatter>());
  sub->add_flag("--print-config", arguments->print_config, "Print all keys and values");
  sub->add_flag(
      "--dry-run",
      arguments->dry_run,
      "Check everything and print who would do what, without running; for any "
      "--parallelism.ranks");
  sub->add_flag("--help-keys", arguments->help_keys, "Print what each key means");
  sub->footer(
      "Examples:\n"
      "  trireme train                                  a small GPT on Trireme's own "
      "text\n"
      "  trireme train --data.path book.txt --training.steps 2000\n"
      "  trireme train job.toml --checkpoint.resume auto\n"
      "  trireme train job.toml --parallelism.ranks 4096 --dry-run\n"
      "  trireme train --model.name recommender --parallelism.embedding_servers 2\n"
      "\n"
      "Exit codes: 0 done, 1 failed, 2 wrong config, 75 stopped by Ctrl-C, SIGTERM or\n"
      "SIGUSR1, with a checkpoint to go on from unless checkpoint.enable is false.");
  sub->callback(
      [sub, arguments, &exit_code] { exit_code = run(*arguments, sub->remaining()); });
}

}  // namespace trireme::cli
