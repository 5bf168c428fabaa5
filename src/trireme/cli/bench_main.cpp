// The program `trireme-bench`: see commands.h.
#include "trireme/bench/bench.h"
#include "trireme/cli/commands.h"

int main(int argc, char** argv) {
  constexpr trireme::cli::AddCommand kCommands[] = {trireme::bench::add_bench};
  return trireme::cli::run_commands(kCommands, argc, argv);
}
