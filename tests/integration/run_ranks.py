#!/usr/bin/env python3
"""Starts a program as the ranks of one world on this host, with torchrun's variables.

    run_ranks.py RANKS PROGRAM [ARGUMENTS…]

Prints what the ranks print to stdout, in the order of the ranks. A test's stand-in for a
launcher: it leaves stderr alone, and ends the others when one fails.
"""

import os
import subprocess
import sys
import time
import uuid

LIMIT_S = 45


def start(command, rank, ranks, job):
    variables = {
        "RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
        # Nobody listens there: on one host the ranks meet in shared memory, and the run id
        # tells this world from others.
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": job}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def main():
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    ranks = int(sys.argv[1])
    job = uuid.uuid4().hex
    processes = [start(sys.argv[2:], rank, ranks, job) for rank in range(ranks)]
    end = time.monotonic() + LIMIT_S
    try:
        while any(p.poll() is None for p in processes) and time.monotonic() < end:
            if any(p.poll() not in (None, 0) for p in processes):
                time.sleep(1)  # for the others to notice by themselves
                break
            time.sleep(0.01)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    for process in processes:
        print(process.communicate()[0], end="")
    codes = [process.returncode for process in processes]
    print(f"all {ranks} ranks ended well" if not any(codes) else f"the ranks ended with {codes}")
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
