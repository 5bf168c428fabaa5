// A schedule of one's own: three stages on two ranks, in an order that no name stands
// for. It is checked, lowered to what the ranks carry out, proved, timed, and run:
//
//   $ build/release/examples/example_custom_schedule
//   rank 0: 0UNSHARD 2UNSHARD 0F0 0SEND_F0 …
//   …
//   cannot lock up, even with rendezvous
//   time 25, bubble 7
//   ran: 3 losses
//   not a schedule: 1W2 is missing
#include <exception>
#include <iostream>

#include <ATen/ATen.h>

#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/pipe/pipeline.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

using namespace trireme;
using Kind = sched::ActionKind;

namespace {

// Rank 0 has the first and the last stage, rank 1 a large one between them.
sched::Schedule make_schedule() {
  constexpr int kMicrobatches = 3;
  sched::Schedule schedule{
      .name = "sandwich",
      .microbatches = kMicrobatches,
      .rank_of_stage = {0, 1, 0},
      .actions = {{}, {}}};
  auto& outer = schedule.actions[0];
  auto& inner = schedule.actions[1];
  outer.emplace_back(Kind::Forward, 0, 0);
  inner.emplace_back(Kind::Forward, 1, 0);
  for (int m = 0; m < kMicrobatches; ++m) {
    const bool more = m + 1 < kMicrobatches;
    if (more) {
      outer.emplace_back(Kind::Forward, 0, m + 1);
      inner.emplace_back(Kind::Forward, 1, m + 1);
    }
    outer.emplace_back(Kind::Forward, 2, m);
    outer.emplace_back(Kind::Backward, 2, m);
    outer.emplace_back(Kind::Backward, 0, m);
    // The gradient of the input is waited for; that of the weights only fills time.
    inner.emplace_back(Kind::InputGrad, 1, m);
    inner.emplace_back(Kind::WeightGrad, 1, m);
  }
  return schedule;
}

// A pipeline takes it as it takes a named one.
void run(const sched::Schedule& schedule, const comm::Group& world) {
  std::vector<pipe::Stage> mine;
  for (const int stage : sched::stages_of(schedule.rank_of_stage, world.rank())) {
    const at::Tensor scale = at::ones({1}).set_requires_grad(true);
    mine.push_back(
        {stage,
         pipe::make_stage(
             pipe::TensorsFunction([scale](const pipe::Tensors& in) {
               return pipe::Tensors{at::mul(in[0], scale)};
             }),
             {{"scale", scale}})});
  }
  pipe::Pipeline pipeline(
      mine,
      world,
      [](const pipe::Tensors& out, const pipe::Tensors&) { return at::mean(out[0]); },
      {.custom = schedule});
  pipe::Batch batch;
  if (world.rank() == 0)
    batch = {.inputs = {at::ones({6, 2})}, .targets = {at::ones({6, 2})}};
  const pipe::StepResult result = pipeline.step(batch);
  if (world.rank() == 0)
    std::cout << "ran: " << result.losses.size() << " losses\n";
}

}  // namespace

int main() try {
  sched::Schedule schedule = make_schedule();
  sched::validate(schedule);

  const sched::Schedule program = sched::lower(schedule);
  for (int rank = 0; rank < program.ranks(); ++rank) {
    std::cout << "rank " << rank << ":";
    for (const sched::Action& action : program.actions[static_cast<size_t>(rank)])
      std::cout << " " << sched::to_string(action);
    std::cout << "\n";
  }

  const sched::Buffers buffers{.messages = 0};
  const sched::Proof proof = sched::prove(program, buffers);
  std::cout << (proof.holds ? "cannot lock up, even with " : "locks up with ")
            << sched::to_string(buffers) << "\n";

  // The middle stage takes twice as long as the others.
  sched::Costs costs;
  costs.stages = {{}, {.forward = 2, .input_grad = 2, .weight_grad = 2}, {}};
  const sched::Simulation result = sched::simulate(program, {.costs = costs});
  std::cout << "time " << result.makespan << ", bubble " << result.wall_bubble << "\n";

  comm::run_local(2, [&](const comm::Group& world) { run(schedule, world); });

  // Mistakes are found before anything runs.
  schedule.actions[1].pop_back();
  if (const auto flaw = sched::find_flaw(schedule))
    std::cout << "not a schedule: " << flaw->what << "\n";
  return 0;
} catch (const trireme::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
