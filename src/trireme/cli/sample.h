// `trireme sample`: text from a checkpoint or a Hugging Face model.
#pragma once

namespace CLI {
class App;
}

namespace trireme::cli {

/// Adds the command `sample`.
void add_sample(CLI::App& app, int& exit_code);

}  // namespace trireme::cli
