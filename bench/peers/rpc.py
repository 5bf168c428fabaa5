"""The peer of `trireme bench rpc`: one worker of torch.distributed.rpc over TensorPipe.

Started by the benchmark with torchrun's variables. Reads jobs from stdin and answers on
stdout, one line of JSON each, as src/trireme/bench/rpc_worker.h describes. The ops "echo" and
"burst" have a peer here.
"""

import json
import os
import pickle
import sys
import time

import torch
import torch.distributed.distributed_c10d as c10d
import torch.distributed.rpc as rpc

OTHER = "worker1"


def read_object(tensor, size, group):
    """What workers say of themselves at the start, which torch would read by NumPy."""
    return pickle.loads(bytes(tensor.tolist()[: int(size)]))


def echo(x):
    return x


def expect_echo(sent, got):
    """As cheap as it gets: the work of both sides between two calls should be small."""
    if got.numel() != sent.numel():
        raise RuntimeError(f"expected {sent.numel()} elements back, got {got.numel()}")


def prepare(job):
    x = torch.ones(max(1, job["bytes"] // 4))
    if not torch.equal(rpc.rpc_sync(OTHER, echo, args=(x,)), x):
        raise RuntimeError("expected an echo to be what was sent, got something else")

    def call():
        expect_echo(x, rpc.rpc_sync(OTHER, echo, args=(x,)))

    def burst():
        futures = [rpc.rpc_async(OTHER, echo, args=(x,)) for _ in range(job["calls"])]
        for future in futures:
            expect_echo(x, future.wait())

    return {"echo": call, "burst": burst}[job["op"]]


def timed(operation):
    start = time.perf_counter()
    operation()
    return time.perf_counter() - start


def work(job):
    operation = prepare(job)
    for _ in range(job["warm_up"]):
        operation()
    return [timed(operation) for _ in range(job["repetitions"])]


def say(answers, **what):
    print(json.dumps(what), file=answers, flush=True)


def serve(jobs, answers, rank):
    for line in jobs:
        say(answers, rows=[work(json.loads(line)) if rank == 0 else []])


def main():
    # Only answers may go to stdout.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    c10d._tensor_to_object = read_object
    try:
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
        say(answers, rows=[])
        serve(sys.stdin, answers, rank)
        rpc.shutdown()
    except Exception as error:  # the benchmark wants to know what it was
        say(answers, error=f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
