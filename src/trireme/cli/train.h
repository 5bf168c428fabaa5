// `trireme train`: the main job.
#pragma once

namespace CLI {
class App;
}

namespace trireme::cli {

/// Adds the command `train`. Its exit code is 0 if all steps are done, 75 if it was
/// stopped and can go on, 2 if the config is wrong.
void add_train(CLI::App& app, int& exit_code);

}  // namespace trireme::cli
