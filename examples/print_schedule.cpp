// A schedule as a picture, and what it costs:
//
//   $ build/release/examples/example_print_schedule
//   rank 0  0F0 0F1 .   .   0B0     0F2 0B1     .   0B2
//   rank 1  .   1F0 1B0     1F1 1B1     1F2 1B2     .   .
//   time 12, bubble 3, activations of rank 0 at most 2
//
// Other schedules and sizes are arguments: example_print_schedule ZBVZeroBubble 4 8
#include <exception>
#include <iostream>
#include <string>

#include "trireme/sched/draw.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/simulate.h"

namespace sched = trireme::sched;

int main(int count, char** words) try {
  const std::string name = count > 1 ? words[1] : "1F1B";
  const int ranks = count > 2 ? std::stoi(words[2]) : 2;
  const int microbatches = count > 3 ? std::stoi(words[3]) : 3;

  // What there is: sched::all_schedules(), or `trireme schedule list`.
  const sched::Schedule schedule =
      sched::generate(name, {.ranks = ranks, .microbatches = microbatches});
  std::cout << sched::draw_grid(schedule, false);

  // F, I and W take one unit of time and B two, unless the costs say otherwise.
  const sched::Simulation result = sched::simulate(schedule, {});
  std::cout << "time " << result.makespan << ", bubble " << result.wall_bubble
            << ", activations of rank 0 at most " << result.peak_activations[0] << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
