// The program `trireme-torch`: see commands.h.
#include "trireme/cli/commands.h"

int main(int argc, char** argv) {
  return trireme::cli::run_commands(argc, argv);
}
