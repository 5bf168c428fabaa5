"""The peer of `trireme bench train`: a GPT in PyTorch, on 2 ranks with gloo.

Without arguments it is one rank that the benchmark has started with torchrun's variables: it
reads jobs from stdin and answers on stdout, one line of JSON each, as
src/trireme/bench/train_worker.h describes. With `--start JOB` it is a whole program: it
starts its own ranks, trains one step of a pipeline and says so.

The model is written out here instead of taken from transformers, since it is faster: there is
less Python around the same operations. Where torch offers several ways to do the same (AdamW,
clipping, gradients of DDP), this takes the one that was fastest here.
"""

import json
import multiprocessing
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

FIRST_STEP = "step 1 is done"


class Embeddings(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.tokens = nn.Embedding(job["vocab"], job["dim"])
        self.positions = nn.Embedding(job["sequence"], job["dim"])

    def forward(self, ids):
        return self.tokens(ids) + self.positions.weight[: ids.shape[1]]


class Block(nn.Module):
    def __init__(self, job):
        super().__init__()
        width, self.heads = job["dim"], job["heads"]
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (
            part.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def make_layers(job):
    """As GPT-2 begins: small normal weights, no biases."""
    torch.manual_seed(1)
    layers = [Embeddings(job)] + [Block(job) for _ in range(job["layers"])]
    layers += [nn.LayerNorm(job["dim"]), nn.Linear(job["dim"], job["vocab"], bias=False)]
    for layer in layers:
        for module in layer.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
    return layers


def token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Windows:
    """One window of the tokens after the other, as our loader does without shuffling."""

    def __init__(self, tokens, sequence, batch):
        self.tokens, self.sequence, self.batch, self.place = tokens, sequence, batch, 0

    def next(self, first, count):
        """`count` samples of the next batch, from number `first` on: inputs and targets."""
        whole = (len(self.tokens) - 1) // self.sequence
        rows = [(self.place + first + i) % whole * self.sequence for i in range(count)]
        self.place += self.batch
        inputs = [self.tokens[at : at + self.sequence] for at in rows]
        targets = [self.tokens[at + 1 : at + self.sequence + 1] for at in rows]
        return torch.stack(inputs), torch.stack(targets)


def make_tokens(job):
    """The same numbers as in make_tokens() of bench_train_worker.cpp."""
    places = torch.arange(job["batch"] * job["sequence"] * 8 + 1)
    return (places * places * 31 + places * 7 + places // 97) % job["vocab"]


def make_optimizer(parameters):
    return torch.optim.AdamW(
        parameters, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True
    )


class PipelineTrainer:
    def __init__(self, job, tokens):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.first, self.last = rank == 0, rank == ranks - 1
        layers = make_layers(job)
        # As many blocks a rank; the ends go with the first and the last.
        each = job["layers"] // ranks
        begin = 0 if self.first else 1 + rank * each
        end = len(layers) if self.last else 1 + (rank + 1) * each
        stage_module = nn.Sequential(*layers[begin:end])
        size = job["microbatch"]
        ids = torch.zeros(size, job["sequence"], dtype=torch.int64)
        hidden = torch.empty(size, job["sequence"], job["dim"]).requires_grad_()
        logits = torch.empty(size, job["sequence"], job["vocab"]).requires_grad_()
        # With the shapes given, torch need not ask the stages for them.
        stage = PipelineStage(
            stage_module,
            rank,
            ranks,
            torch.device("cpu"),
            input_args=(ids if self.first else hidden,),
            output_args=(logits if self.last else hidden,),
        )
        self.count = job["batch"]
        self.schedule = Schedule1F1B(
            stage, n_microbatches=self.count // size, loss_fn=token_loss
        )
        self.parameters = list(stage_module.parameters())
        self.optimizer = make_optimizer(self.parameters)
        self.windows = Windows(tokens, job["sequence"], job["batch"])

    def step(self):
        inputs, targets = self.windows.next(0, self.count)
        losses = []
        given = (inputs,) if self.first else ()
        more = {"target": targets, "losses": losses} if self.last else {}
        self.schedule.step(*given, **more)
        self.clip()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return torch.stack(losses).mean().item() if self.last else None

    def clip(self):
        """The norm of all stages' gradients together."""
        gradients = [parameter.grad for parameter in self.parameters]
        squares = torch.nn.utils.get_total_norm(gradients) ** 2
        dist.all_reduce(squares)
        torch.nn.utils.clip_grads_with_norm_(self.parameters, 1.0, squares.sqrt())


class DataParallelTrainer:
    def __init__(self, job, tokens):
        from torch.nn.parallel import DistributedDataParallel

        self.model = DistributedDataParallel(
            nn.Sequential(*make_layers(job)), gradient_as_bucket_view=True
        )
        self.optimizer = make_optimizer(self.model.parameters())
        self.count = job["batch"] // dist.get_world_size()
        self.windows = Windows(tokens, job["sequence"], job["batch"])

    def step(self):
        inputs, targets = self.windows.next(dist.get_rank() * self.count, self.count)
        loss = token_loss(self.model(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


def make_trainer(job, tokens):
    kind = PipelineTrainer if job["layout"] == "pipeline" else DataParallelTrainer
    trainer = kind(job, tokens)
    loss = trainer.step()
    # What is fast but wrong is not measured.
    if loss is not None and abs(loss - torch.tensor(float(job["vocab"])).log().item()) > 0.5:
        raise RuntimeError(f"expected the loss of a fresh model, got {loss}")
    return trainer


def timed(step):
    dist.barrier()
    start = time.perf_counter()
    step()
    dist.barrier()
    return time.perf_counter() - start


class Sampler:
    """transformers' generate on a random GPT-2, which is written for the other side too."""

    def __init__(self, job):
        import transformers

        transformers.utils.logging.set_verbosity_error()
        config = transformers.AutoConfig.from_pretrained(job["folder"])
        torch.manual_seed(1)
        self.model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation="sdpa"
        ).eval()
        self.model.save_pretrained(job["folder"])

    def generate(self, job):
        prompt = torch.arange(1, job["prompt"] + 1).unsqueeze(0)
        with torch.inference_mode():
            ids = self.model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=job["new_tokens"],
                min_new_tokens=job["new_tokens"],
                do_sample=False,
                use_cache=True,
                pad_token_id=0,
            )
        return ids[0, job["prompt"] :].tolist()


class Worker:
    """What a job needs stays for the next one like it."""

    def __init__(self):
        self.key, self.made = None, None

    def prepared(self, job, make):
        key = (job["op"] == "step", job["layout"], job["dim"], job["batch"], job["folder"])
        if key != self.key:
            self.made = None
            self.made, self.key = make(), key
        return self.made

    def work(self, job):
        if job["op"] == "step":
            trainer = self.prepared(job, lambda: make_trainer(job, make_tokens(job)))
            once = trainer.step
        else:
            sampler = self.prepared(job, lambda: Sampler(job))
            if job["op"] == "tokens":
                return sampler.generate(job)
            once = lambda: sampler.generate(job)  # noqa: E731
        times = [timed(once) for _ in range(job["warm_up"] + job["repetitions"])]
        return times[job["warm_up"] :]


def say(answers, **what):
    print(json.dumps(what), file=answers, flush=True)


def serve(jobs, answers):
    worker = Worker()
    for line in jobs:
        say(answers, rows=[worker.work(json.loads(line))])


def serve_rank():
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


def train_one_step(rank, job):
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // job["ranks"]))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(job["ranks"]))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job["port"]))
    dist.init_process_group("gloo")
    with open(job["data"], "rb") as file:
        tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    trainer = make_trainer(job, tokens)
    dist.barrier()
    if trainer.last:
        print(FIRST_STEP, flush=True)
    dist.destroy_process_group()


def start(job):
    """Forks the ranks, so that torch is loaded once: the quickest way there is in Python."""
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=train_one_step, args=(i, job)) for i in range(job["ranks"])]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    return max(rank.exitcode != 0 for rank in ranks)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--start"]:
        sys.exit(start(json.loads(sys.argv[2])))
    sys.exit(serve_rank())
