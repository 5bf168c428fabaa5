"""The peer of `trireme bench pipe`: one rank of torch.distributed.pipelining on gloo.

Started by the benchmark with torchrun's variables. Reads jobs from stdin and answers on
stdout, one line of JSON each, as src/trireme/bench/pipe_worker.h describes. Only the op
"step" has a peer here.
"""

import json
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class

SINGLE = {"GPipe", "1F1B"}
V_SHAPED = {"ZBVZeroBubble", "DualPipeV"}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.heads = max(1, width // 64)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def make_layer(job):
    return Block(job["width"]) if job["layer"] == "block" else nn.Linear(job["width"], job["width"])


def squared_error(output, target):
    return ((output - target) ** 2).mean()


def prepare(job):
    """A function that makes one step and drops the gradients."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = [make_layer(job) for _ in range(job["layers"])]
    name = job["schedule"]
    stages = ranks if name in SINGLE else 2 * ranks
    if name in SINGLE:
        mine = [rank]
    elif name in V_SHAPED:
        mine = [rank, stages - 1 - rank]
    else:
        mine = [rank, rank + ranks]
    each = job["layers"] // stages
    # With the shapes given, torch need not ask the stages for them, for which it wants NumPy.
    example = torch.empty(1, job["sequence"], job["width"])
    local = [
        PipelineStage(
            nn.Sequential(*layers[i * each : (i + 1) * each]),
            i,
            stages,
            torch.device("cpu"),
            input_args=(example.clone().requires_grad_(i > 0),),
            output_args=(example.clone().requires_grad_(),),
        )
        for i in mine
    ]
    schedule = get_schedule_class(name)(
        local[0] if name in SINGLE else local,
        n_microbatches=job["microbatches"],
        loss_fn=squared_error,
    )
    shape = (job["microbatches"], job["sequence"], job["width"])
    inputs, targets = torch.randn(shape), torch.randn(shape)

    def step():
        given = (inputs,) if 0 in mine else ()
        more = {"target": targets, "losses": []} if stages - 1 in mine else {}
        schedule.step(*given, **more)
        for stage in local:
            for parameter in stage.submod.parameters():
                parameter.grad = None

    return step


def timed(step):
    dist.barrier()
    start = time.perf_counter()
    step()
    dist.barrier()
    return time.perf_counter() - start


def say(answers, **what):
    print(json.dumps(what), file=answers, flush=True)


def serve(jobs, answers):
    prepared = {}
    for line in jobs:
        job = json.loads(line)
        key = (job["schedule"], job["layer"], job["microbatches"])
        if key not in prepared:
            prepared = {key: prepare(job)}
        for _ in range(job["warm_up"]):
            timed(prepared[key])
        say(answers, rows=[[timed(prepared[key]) for _ in range(job["repetitions"])]])


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
