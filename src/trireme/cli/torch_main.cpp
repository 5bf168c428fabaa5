// The program `trireme-torch`: see commands.h.
#include "trireme/cli/commands.h"
#include "trireme/cli/doctor.h"
#include "trireme/cli/sample.h"
#include "trireme/cli/train.h"

int main(int argc, char** argv) {
  using namespace trireme::cli;
  constexpr AddCommand kCommands[] = {add_train, add_sample, add_doctor};
  return run_commands(kCommands, argc, argv);
}
