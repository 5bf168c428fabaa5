// The program `trireme`: see front.h.
#include <iostream>
#include <string>
#include <vector>

#include "trireme/cli/front.h"

int main(int argc, char** argv) {
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
