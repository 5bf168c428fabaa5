"""Trains a small network under DistributedDataParallel on gloo, two ranks, and prints its losses.

Run by tests/integration/data_parallel_peer_test.cpp, which trains the same with ours. Weights and
data follow from formulas, so that both sides have the same. One JSON list: by rank, by step, by
microbatch.
"""

import datetime
import json
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, MICROBATCHES, ROWS, WIDTH, LAYERS, RATE = 2, 6, 2, 8, 12, 4, 5.0
LIMIT = datetime.timedelta(seconds=60)


def numbers(count, factor):
    """The same in both programs: sines of multiples of a factor."""
    return torch.sin(torch.arange(count, dtype=torch.float64) * factor).float()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(
            (numbers(WIDTH * WIDTH, 0.7 + layer) * 0.4).reshape(WIDTH, WIDTH)
            for layer in range(LAYERS)
        )

    def forward(self, x):
        for weight in self.weights:
            x = torch.tanh(x @ weight)
        return x


def rows_of(rank, factor):
    return numbers(RANKS * ROWS * WIDTH, factor).reshape(RANKS, ROWS, WIDTH)[rank]


def train(rank, path):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{path}", rank=rank, world_size=RANKS, timeout=LIMIT
    )
    # Small buckets, so that there are several.
    model = DistributedDataParallel(Net(), bucket_cap_mb=0.001, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    x, y = rows_of(rank, 0.3).chunk(MICROBATCHES), rows_of(rank, 0.9).chunk(MICROBATCHES)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with model.no_sync():
            first = torch.nn.functional.mse_loss(model(x[0]), y[0])
            (first / MICROBATCHES).backward()
        second = torch.nn.functional.mse_loss(model(x[1]), y[1])
        (second / MICROBATCHES).backward()
        optimizer.step()
        losses.append([first.item(), second.item()])
    mine = torch.tensor(losses, dtype=torch.float64)
    all_of_them = [torch.empty_like(mine) for _ in range(RANKS)]
    dist.all_gather(all_of_them, mine)
    if rank == 0:
        print(json.dumps([one.tolist() for one in all_of_them]), flush=True)
    dist.destroy_process_group()


def main():
    # Otherwise gloo asks for the address of the host's name, which not every host has.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        # Forked: to import torch once is slow enough.
        torch.multiprocessing.start_processes(
            train, (os.path.join(folder, "store"),), nprocs=RANKS, start_method="fork"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
