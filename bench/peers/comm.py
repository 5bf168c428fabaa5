"""The peer of `trireme bench comm`: one rank that measures gloo through PyTorch.

Started by the benchmark with torchrun's variables. Reads jobs from stdin and answers on
stdout, one line of JSON each, as src/trireme/bench/protocol.h describes.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist


def timed(operation):
    dist.barrier()
    start = time.perf_counter()
    operation()
    return time.perf_counter() - start


def make_tensor(job):
    dtype = getattr(torch, job["dtype"])
    return torch.empty(max(1, job["bytes"] // dtype.itemsize), dtype=dtype)


def expect_sum(tensor, wanted, op):
    got = tensor[0].item() + tensor[-1].item()
    if got != wanted:
        raise RuntimeError(f"expected {op} to give {wanted} as first plus last, got {got}")


def prepare_all_reduce(job):
    tensor = make_tensor(job).fill_(dist.get_rank() + 1)
    dist.all_reduce(tensor)
    expect_sum(tensor, dist.get_world_size() * (dist.get_world_size() + 1), "all_reduce")
    tensor.zero_()  # ones would double with every repetition and end as infinities
    return lambda: dist.all_reduce(tensor)


def prepare_ping_pong(job):
    """Rank 1 sends back what it got, as ours does; recv writes into a tensor made before.

    Our side looks at the first and the last element of each message; in Python that would
    cost more than it does in C++, so here it is done once, before the clock starts.
    """
    tensor = make_tensor(job).fill_(1 - dist.get_rank())

    def ping_pong():
        if dist.get_rank() == 0:
            dist.send(tensor, 1)
            dist.recv(tensor, 1)
        else:
            dist.recv(tensor, 0)
            dist.send(tensor, 0)

    ping_pong()
    expect_sum(tensor, 2, "ping_pong")
    return ping_pong


PREPARE = {"all_reduce": prepare_all_reduce, "ping_pong": prepare_ping_pong}


def serve(jobs, answers):
    key = operation = None
    for line in jobs:
        job = json.loads(line)
        if key != (job["op"], job["bytes"], job["dtype"]):
            operation = None  # lets the old tensor go first
            operation = PREPARE[job["op"]](job)
            key = (job["op"], job["bytes"], job["dtype"])
        for _ in range(job["warm_up"]):
            timed(operation)
        say(answers, rows=[[timed(operation) for _ in range(job["repetitions"])]])


def say(answers, **what):
    print(json.dumps(what), file=answers, flush=True)


def main():
    # gloo writes to stdout when it connects; only answers may go there.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        say(answers, rows=[])
        serve(sys.stdin, answers)
    except Exception as error:
        say(answers, error=f"{type(error).__name__}: {error}")
        raise
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
