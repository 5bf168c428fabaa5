#include "trireme/cli/train.h"

#include <iostream>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

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
#include "trireme/train/layout.h"
#include "trireme/train/model_source.h"
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
  return config.checkpoint.enable
             ? "; to go on from the last checkpoint, give the same command with "
               "--checkpoint.resume auto"
             : "; start the job again";
}

int run_training(train::Config config, int ranks) {
  // Ranks inherit it: told to stop while they start, they end as one that can go on.
  const train::StopSignal stop(launch::kResumable);
  const int width = terminal_width();
  if (config.metrics.progress == "auto" && width > 0)
    config.metrics.progress = "bar";
  return run_ranks(ranks, [&](const comm::Group& world) {
    stop.defer();
    try {
      const train::TrainResult result = train::train(
          world,
          config,
          {.progress = &std::cerr,
           .report = &std::cout,
           .width = width > 0 ? width : 80,
           .should_stop = [&stop] { return stop.raised(); }});
      return result.stopped ? launch::kResumable : 0;
    } catch (const PeerError& error) {
      throw PeerError(error.rank(), error.what() + way_on(config));
    }
  });
}

// Opens what costs nothing to open: a text for a BPE tokenizer would be read whole.
void check_files(const train::Config& config, const data::Tokenizer* tokenizer) {
  if (tokenizer == nullptr || tokenizer->kind() == "bytes")
    train::open_sources(config);
  if (config.checkpoint.resume != "auto")
    train::find_resume(config, "");
}

int run(const TrainArguments& arguments, const std::vector<std::string>& words) {
  if (arguments.help_keys) {
    std::cout << list_keys();
    return 0;
  }
  train::Config config;
  int ranks = 1;
  try {
    config = read_config(words);
  } catch (const Error& error) {
    std::cerr << "trireme: " << error.what() << "\n";
    return kWrongUsage;
  }
  if (arguments.print_config) {
    std::cout << train::to_toml(config);
    return 0;
  }
  try {
    const LaunchEnv launched = read_launch_env(Environment::of_process());
    ranks = is_rank() ? launched.world_size
                      : train::fitting_ranks(config, available_cores());
    // All that can be wrong is found before ranks start.
    const auto tokenizer = train::open_tokenizer(config);
    const auto model =
        train::describe_model(config, train::vocabulary_of(tokenizer.get()));
    train::check_demo_values(config, model);
    check_files(config, tokenizer.get());
    const std::string described = train::dry_run(config, model.plan, ranks);
    if (arguments.dry_run) {
      if (launched.rank == 0)
        std::cout << described;
      return 0;
    }
  } catch (const Error& error) {
    std::cerr << "trireme: " << train::with_origins(config, error.what()) << "\n";
    return kWrongUsage;
  }
  return run_training(config, ranks);
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
      "\n"
      "Exit codes: 0 done, 1 failed, 2 wrong config, 75 stopped by SIGTERM or SIGUSR1 "
      "with a\n"
      "checkpoint to go on from.");
  sub->callback(
      [sub, arguments, &exit_code] { exit_code = run(*arguments, sub->remaining()); });
}

}  // namespace trireme::cli
