"""Small models of transformers, for tests/integration/model_peer_test.cpp.

    transformers_models.py make FOLDER     # a folder a model: config.json, weights, expected.safetensors
    transformers_models.py check FOLDER    # loads what ours has saved there, and compares the logits

expected.safetensors has tokens, targets, logits, loss and the gradient of each parameter.
"""

import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM)

VOCABULARY, SEQUENCES, LENGTH = 61, 2, 20


def gpt2(**more):
    config = dict(vocab_size=VOCABULARY, n_positions=32, n_embd=24, n_layer=2, n_head=3,
                  initializer_range=0.1, bos_token_id=1, eos_token_id=2)
    return GPT2LMHeadModel(GPT2Config(**{**config, **more}))


def llama(**more):
    config = dict(vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
                  num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=32,
                  initializer_range=0.1)
    return LlamaForCausalLM(LlamaConfig(**{**config, **more}))


# Waves of heads of 4 numbers are 6 and 628 long: with these lengths one is kept, and one between.
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=1000)


def models():
    yield "gpt2", gpt2(), {}
    yield "gpt2_untied", gpt2(tie_word_embeddings=False), {}
    yield "gpt2_sharded", gpt2(), dict(max_shard_size="20KB")
    yield "gpt2_other", gpt2(n_inner=50, activation_function="gelu", layer_norm_epsilon=1e-3,
                             scale_attn_by_inverse_layer_idx=True), {}
    yield "gpt2_relu", gpt2(activation_function="relu", scale_attn_weights=False), {}
    yield "gpt2_bf16", gpt2().to(torch.bfloat16), {}
    yield "llama", llama(), {}
    yield "llama_tied", llama(tie_word_embeddings=True), {}
    yield "llama_all_heads", llama(num_key_value_heads=6, hidden_act="gelu"), {}
    yield "llama_bias", llama(attention_bias=True, mlp_bias=True, head_dim=10, rms_norm_eps=1e-3), {}
    yield "llama_linear", llama(
        rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=3.0)), {}
    yield "llama_llama3", llama(rope_parameters=LLAMA3), {}
    yield "llama_sharded", llama(), dict(max_shard_size="20KB")
    yield "llama_bf16", llama().to(torch.bfloat16), {}


def randomise(model):
    """Norms and biases begin as 1 and 0, which would hide mistakes."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)


def expected(model):
    tokens = torch.randint(VOCABULARY, (SEQUENCES, LENGTH))
    targets = torch.randint(VOCABULARY, (SEQUENCES, LENGTH))
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    out = {"tokens": tokens, "targets": targets, "logits": logits.detach(), "loss": loss.detach()}
    for name, parameter in model.named_parameters():
        out[f"grad.{name}"] = parameter.grad
    return {name: tensor.contiguous() for name, tensor in out.items()}


def make(folder):
    torch.manual_seed(0)
    for name, model, options in models():
        model.eval()
        randomise(model)
        model.save_pretrained(folder / name, **options)
        save_file(expected(model), folder / name / "expected.safetensors")
        if name == "gpt2":  # as the published files are
            bare = folder / "gpt2_without_prefix"
            model.transformer.save_pretrained(bare)
            model.zero_grad()
            save_file(expected(model), bare / "expected.safetensors")


def check(folder):
    """`logits.safetensors` has tokens, and the logits that ours has for them."""
    for case in sorted(path for path in folder.iterdir() if path.is_dir()):
        given = load_file(case / "logits.safetensors")
        # A weight that is missing, or too many, is only reported; here it fails.
        model, report = AutoModelForCausalLM.from_pretrained(case, output_loading_info=True)
        wrong = {key: names for key, names in report.items() if names}
        if wrong:
            sys.exit(f"{case.name}: {wrong}")
        model.eval()
        if model.dtype != given["logits"].dtype:
            sys.exit(f"{case.name}: loaded as {model.dtype}, saved as {given['logits'].dtype}")
        with torch.no_grad():
            logits = model(given["tokens"]).logits
        tolerance = dict(rtol=1.3e-6, atol=1e-5)
        if logits.dtype == torch.bfloat16:  # a few of its 8 bits
            tolerance = dict(rtol=0.02, atol=0.02)
        torch.testing.assert_close(given["logits"], logits, **tolerance)
        print(case.name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
