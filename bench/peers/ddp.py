"""The peer of `trireme bench ddp`: one rank of DistributedDataParallel on gloo.

Started by the benchmark with torchrun's variables. Reads jobs from stdin and answers on
stdout, one line of JSON each, as src/trireme/bench/ddp_worker.h describes.
"""

import json
import math
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


def make_model(job):
    """The same on every rank. The scale keeps gradients from growing or vanishing."""
    torch.manual_seed(0)
    layers = [nn.Linear(job["width"], job["width"]) for _ in range(job["layers"])]
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(math.sqrt(3))
    return nn.Sequential(*layers)


def step(model, x):
    model(x).sum().backward()
    model.zero_grad(set_to_none=True)


def check(parallel, local, x):
    """What is fast but wrong is not measured."""
    parallel(x).sum().backward()
    local(x).sum().backward()
    wanted = list(local.parameters())[-1].grad.clone()
    dist.all_reduce(wanted)
    wanted /= dist.get_world_size()
    got = list(parallel.parameters())[-1].grad
    if not torch.allclose(got, wanted, 1e-4, 1e-4):
        raise RuntimeError("expected the mean of all ranks' gradients, got something else")
    parallel.zero_grad(set_to_none=True)
    local.zero_grad(set_to_none=True)


def prepare(job):
    parallel = DistributedDataParallel(make_model(job), gradient_as_bucket_view=True)
    local = make_model(job)
    torch.manual_seed(1 + dist.get_rank())
    x = torch.randn(job["batch"], job["width"])
    check(parallel, local, x)
    return parallel, local, x


def timed(model, x):
    dist.barrier()
    start = time.perf_counter()
    step(model, x)
    return time.perf_counter() - start


def say(answers, **what):
    print(json.dumps(what), file=answers, flush=True)


def serve(jobs, answers):
    prepared = {}
    for line in jobs:
        job = json.loads(line)
        key = (job["layers"], job["width"], job["batch"])
        if key not in prepared:
            prepared.clear()
            prepared[key] = prepare(job)
        parallel, local, x = prepared[key]
        pairs = [
            (timed(parallel, x), timed(local, x)) for _ in range(job["warm_up"] + job["repetitions"])
        ][job["warm_up"] :]
        say(answers, rows=[[pair[0] for pair in pairs] + [pair[1] for pair in pairs]])


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints is no answer
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo")
        say(answers, rows=[])
        serve(sys.stdin, answers)
        dist.destroy_process_group()
    except Exception as error:  # the benchmark wants to know what it was
        say(answers, error=f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
