"""The peer of `trireme bench dist-autograd`: one worker of torch.distributed.autograd over
TensorPipe; of its hybrid step the trainers' part is under DistributedDataParallel on gloo.

Started by the benchmark with torchrun's variables. Reads jobs from stdin and answers on
stdout, one line of JSON each, as src/trireme/bench/dist_autograd_worker.h describes.
"""

import json
import os
import pickle
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.distributed_c10d as c10d
import torch.distributed.rpc as rpc
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

TRAINERS = 4
SERVER = f"worker{TRAINERS}"
ROWS, SPARSE, DENSE, HIDDEN, BATCH, BAG = 1000, 64, 64, 128, 64, 4


def read_object(tensor, size, group):
    """What workers say of themselves at the start, which torch would read by NumPy."""
    return pickle.loads(bytes(tensor.tolist()[: int(size)]))


# What workers call of each other.

weight = torch.full((1,), 2.0, requires_grad=True)


def chain(x, left):
    """Through this worker and as many more, and all the way back."""
    y = x * weight
    if left == 0:
        return y
    return rpc.rpc_sync(f"worker{rpc.get_worker_info().id + 1}", chain, args=(y, left - 1))


class Parts(nn.Module):
    """All parts of the hybrid model, the same on every worker."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.EmbeddingBag(ROWS, SPARSE, mode="mean")
        self.net = nn.Linear(DENSE + SPARSE, HIDDEN, bias=False)
        self.fc1 = nn.Linear(DENSE, DENSE, bias=False)
        self.fc2 = nn.Linear(HIDDEN, 1, bias=False)


parts = Parts()


def embed(ids, offsets):
    return parts.embedding(ids, offsets)


def run_net(x):
    return torch.relu(parts.net(x))


def net_gradient(context):
    return dist_autograd.get_gradients(context)[parts.net.weight]


class Trainer(nn.Module):
    """What of the model a trainer has; the rest is at the server."""

    def __init__(self):
        super().__init__()
        mine = Parts()
        self.fc1, self.fc2 = mine.fc1, mine.fc2

    def forward(self, ids, offsets, dense):
        sparse = rpc.rpc_sync(SERVER, embed, args=(ids, offsets))
        x = torch.cat([self.fc1(dense), sparse], 1)
        return self.fc2(rpc.rpc_sync(SERVER, run_net, args=(x,)))


class Batch:
    def __init__(self, rank):
        torch.manual_seed(1 + rank)
        self.ids = torch.randint(ROWS, (BATCH * BAG,))
        self.offsets = torch.arange(0, BATCH * BAG, BAG)
        self.dense = torch.randn(BATCH, DENSE)
        self.values = torch.randn(BATCH)


# The jobs: each gives what is timed, after a check that it computes what it should.


def expect(got, wanted, what):
    """What is fast but wrong is not measured."""
    if not torch.allclose(got, wanted, 1e-4, 1e-4):
        raise RuntimeError(f"expected {what}, got something else")


def operands(job):
    x = torch.full((job["floats"],), 3.0, requires_grad=True)
    return x, torch.full((job["floats"],), 5.0, requires_grad=True)


def multiply(job):
    x, y = operands(job)

    def step():
        with dist_autograd.context() as context:
            loss = rpc.rpc_sync("worker1", torch.mul, args=(x, y)).sum()
            dist_autograd.backward(context, [loss])
            return dist_autograd.get_gradients(context)

    expect(step()[x], y, "the gradient of a product")
    return step


def go_through(job):
    x, _ = operands(job)

    def step():
        with dist_autograd.context() as context:
            loss = rpc.rpc_sync("worker1", chain, args=(x, job["calls"] - 1)).sum()
            dist_autograd.backward(context, [loss])
            return dist_autograd.get_gradients(context)

    expect(step()[x], torch.full_like(x, 2.0 ** job["calls"]), "the gradient of a chain")
    return step


def fan_out(job):
    x, y = operands(job)
    others = dist.get_world_size() - 1

    def step():
        with dist_autograd.context() as context:
            results = [
                rpc.rpc_async(f"worker{1 + i % others}", torch.mul, args=(x, y))
                for i in range(job["calls"])
            ]
            loss = torch.stack([result.wait() for result in results]).sum()
            dist_autograd.backward(context, [loss])
            return dist_autograd.get_gradients(context)

    expect(step()[x], job["calls"] * y, "the gradients of all calls")
    return step


def check_hybrid(model, batch, group):
    local = Parts()
    sparse = local.embedding(batch.ids, batch.offsets)
    x = torch.cat([local.fc1(batch.dense), sparse], 1)
    out = local.fc2(torch.relu(local.net(x)))
    (out.squeeze(1) * batch.values).sum().backward()
    with dist_autograd.context() as context:
        out = model(batch.ids, batch.offsets, batch.dense)
        dist_autograd.backward(context, [(out.squeeze(1) * batch.values).sum()])
        got = dist_autograd.get_gradients(context)
        expect(
            rpc.rpc_sync(SERVER, net_gradient, args=(context,)),
            local.net.weight.grad,
            "this trainer's own gradient at the server",
        )
    wanted = local.fc1.weight.grad.clone()
    dist.all_reduce(wanted, group=group)
    expect(got[model.module.fc1.weight], wanted / TRAINERS, "the mean over the trainers")


def hybrid(job, group):
    model = DistributedDataParallel(Trainer(), process_group=group)
    batch = Batch(dist.get_rank())
    check_hybrid(model, batch, group)

    def step():
        with dist_autograd.context() as context:
            out = model(batch.ids, batch.offsets, batch.dense)
            dist_autograd.backward(context, [(out.squeeze(1) * batch.values).sum()])
            return dist_autograd.get_gradients(context)

    return step


def timed(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


class Worker:
    def __init__(self):
        self.rank = dist.get_rank()
        self.trainers = None
        if dist.get_world_size() > TRAINERS:
            self.trainers = dist.new_group(list(range(TRAINERS)))
        self.key, self.step = None, None

    def work(self, job):
        is_hybrid = job["op"] == "hybrid"
        if self.rank >= (TRAINERS if is_hybrid else 1):
            return []
        key = (job["op"], job["floats"], job["calls"])
        if key != self.key:
            self.key, self.step = key, self.prepare(job)
        row = []
        for i in range(job["warm_up"] + job["repetitions"]):
            if is_hybrid:
                dist.barrier(self.trainers)
            time = timed(self.step)
            if i >= job["warm_up"]:
                row.append(time)
        return row

    def prepare(self, job):
        if job["op"] == "hybrid":
            return hybrid(job, self.trainers)
        return {"multiply": multiply, "chain": go_through, "fan_out": fan_out}[job["op"]](job)


def say(answers, **what):
    print(json.dumps(what), file=answers, flush=True)


def main():
    # Only answers may go to stdout.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    c10d._tensor_to_object = read_object
    try:
        dist.init_process_group("gloo", rank=rank, world_size=size)
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
        worker = Worker()
        say(answers, rows=[])
        for line in sys.stdin:
            say(answers, rows=[worker.work(json.loads(line))])
        rpc.shutdown()
    except Exception as error:  # the benchmark wants to know what it was
        say(answers, error=f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
