// `trireme keys`: makes the secrets that protect the connections of a job.
#pragma once
#include <iosfwd>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace trireme::cli {

/// What the command line said.
struct KeysArguments {
  /// Where a job key goes.
  std::string file;
  /// The folder of the authority.
  std::string authority;
  /// The worker that gets a certificate, and the folder for it; empty: one of its name
  /// in the folder of the authority.
  std::string name;
  std::string output;
  int authority_days = 3650;
  int worker_days = 365;
};

/// Adds the words job, ca and worker with their options.
void add_keys_options(CLI::App& keys, KeysArguments& arguments);

/// Runs the word: 0, or 2 for what cannot be made as asked. Throws NotSupported where
/// certificates are asked for in a build without OpenSSL.
int run_keys(
    const std::string& word,
    const KeysArguments& arguments,
    std::ostream& out,
    std::ostream& err);

}  // namespace trireme::cli
