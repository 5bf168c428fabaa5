"""Trains a small network in PyTorch and prints its losses, one JSON list of lists.

Run by tests/integration/pipeline_peer_test.cpp, which trains the same in a pipeline. Weights and
data follow from formulas, so that both sides have the same.
"""

import json

import torch

STEPS, MICROBATCHES, ROWS, WIDTH, LAYERS, RATE = 5, 4, 8, 12, 4, 0.5


def numbers(count, factor):
    """The same in both programs: sines of multiples of a factor."""
    return torch.sin(torch.arange(count, dtype=torch.float64) * factor).float()


def main():
    torch.set_num_threads(1)
    weights = [
        (numbers(WIDTH * WIDTH, 0.7 + layer) * 0.4).reshape(WIDTH, WIDTH).requires_grad_()
        for layer in range(LAYERS)
    ]
    x = numbers(ROWS * WIDTH, 0.3).reshape(ROWS, WIDTH)
    y = numbers(ROWS * WIDTH, 0.9).reshape(ROWS, WIDTH)
    optimizer = torch.optim.SGD(weights, lr=RATE)
    steps = []
    for _ in range(STEPS):
        losses = []
        optimizer.zero_grad()
        for inputs, targets in zip(x.chunk(MICROBATCHES), y.chunk(MICROBATCHES)):
            for weight in weights:
                inputs = torch.tanh(inputs @ weight)
            loss = torch.nn.functional.mse_loss(inputs, targets)
            (loss / MICROBATCHES).backward()
            losses.append(loss.item())
        optimizer.step()
        steps.append(losses)
    print(json.dumps(steps))


if __name__ == "__main__":
    main()
