"""The peer of `trireme bench schedule`: torch's own generator, lowering and simulator.

Reads jobs from stdin and answers on stdout, one line of JSON each, as
src/trireme/bench/schedule_worker.h describes: a row with the seconds and the number of
lowered actions.
"""

import json
import os
import sys
import time
from types import SimpleNamespace

from torch.distributed.pipelining import schedules

UNKNOWN_TO_THE_SIMULATOR = (schedules.UNSHARD, schedules.RESHARD, schedules.REDUCE_GRAD)


def measure(ranks, stages_per_rank, microbatches):
    """Constructing the schedule generates, validates and lowers it; then it is simulated."""
    stages = ranks * stages_per_rank
    # Stages without a process group: nothing here runs a model.
    local = [SimpleNamespace(group_rank=0, group_size=ranks, num_stages=stages, submod=None)
             for _ in range(stages_per_rank)]
    start = time.perf_counter()
    schedule = schedules.ScheduleInterleaved1F1B(local, microbatches)
    made = time.perf_counter() - start
    lowered = schedule.pipeline_order_with_comms
    known = {rank: [action for action in actions
                    if action.computation_type not in UNKNOWN_TO_THE_SIMULATOR]
             for rank, actions in lowered.items()}
    start = time.perf_counter()
    done = schedules._simulate_comms_compute(known, lambda stage: stage % ranks, stages)
    simulated = time.perf_counter() - start
    if len(done) != ranks:
        raise RuntimeError(f"expected {ranks} ranks to be simulated, got {len(done)}")
    return [made + simulated, sum(map(len, lowered.values()))]


def main():
    # Only answers may go to stdout.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**what):
        print(json.dumps(what), file=answers, flush=True)

    say(rows=[])
    for line in sys.stdin:
        try:
            say(rows=[measure(**json.loads(line))])
        except Exception as error:
            say(error=f"{type(error).__name__}: {error}")
            raise


if __name__ == "__main__":
    main()
