"""Trains small models of transformers, for tests/integration/train_peer_test.cpp.

    train_models.py make FOLDER      # tokens.bin, and a folder a model with losses.json
    train_models.py greedy FOLDER    # prints what generate() makes of the model there, as JSON

losses.json has the loss and the norm of the gradients of each step.
"""

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy
import torch
from transformers import (
    AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM)

VOCABULARY, LENGTH, BATCH, STEPS, WARMUP = 61, 16, 4, 10, 3
RATE, DECAY, LEAST, LIMIT = 3e-3, 0.1, 0.1, 1.0
PROMPT, NEW = [3, 1, 4], 12


def models():
    yield "gpt2", GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=24, n_layer=2, n_head=3,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2))
    yield "llama", LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=32))


def rate_of(step):
    if step < WARMUP:
        return RATE * (step + 1) / WARMUP
    part = (step - WARMUP) / (STEPS - WARMUP)
    return RATE * (LEAST + (1 - LEAST) * (1 - part))


def train(model, tokens):
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=DECAY)
    model.train()
    seen = []
    for step in range(STEPS):
        windows = [tokens[i * LENGTH:i * LENGTH + LENGTH + 1]
                   for i in range(step * BATCH, (step + 1) * BATCH)]
        both = torch.stack(windows)
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step)
        optimizer.zero_grad()
        logits = model(both[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), both[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
        optimizer.step()
        seen.append({"loss": loss.item(), "grad_norm": norm.item()})
    return seen


def make(folder):
    torch.manual_seed(7)
    generator = numpy.random.default_rng(7)
    tokens = generator.integers(0, VOCABULARY, LENGTH * BATCH * STEPS + 1).astype(numpy.uint16)
    tokens[1::2] = tokens[::2][:len(tokens[1::2])]  # something to learn: all come twice
    tokens.tofile(folder / "tokens.bin")
    for name, model in models():
        model.save_pretrained(folder / name)
        seen = train(model, torch.from_numpy(tokens.astype(numpy.int64)))
        (folder / name / "losses.json").write_text(json.dumps(seen))


def greedy(folder):
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    made = model.generate(
        torch.tensor([PROMPT]), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False,
        use_cache=True)
    with torch.no_grad():
        shares = model(made).logits[0].float().log_softmax(-1)
    new = made[0, len(PROMPT):].tolist()
    logprobs = [shares[len(PROMPT) + i - 1, token].item() for i, token in enumerate(new)]
    print(json.dumps({"ids": made[0].tolist(), "new_ids": new, "logprobs": logprobs}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"make": make, "greedy": greedy}[sys.argv[1]](Path(sys.argv[2]))
