// The program `trireme`: see front.h.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "trireme/cli/front.h"

int main(int argc, char** argv) {
  // What is printed to be pasted begins with it; ./trireme has said how it was called.
  if (argc > 0)
    ::setenv("TRIREME_CALLED_AS", argv[0], /*replace=*/0);
  const int code = trireme::cli::run_front(
      std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
      std::cout,
      std::cerr);
  if (!std::cout.flush()) {
    std::cerr << "trireme: cannot write to stdout\n";
    return code == 0 ? 1 : code;
  }
  return code;
}
