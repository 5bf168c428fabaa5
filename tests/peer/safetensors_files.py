"""Files of safetensors and transformers, for tests/integration/checkpoint_peer_test.cpp.

    safetensors_files.py make FOLDER    writes theirs.safetensors (a tensor of each dtype) and hf/, a
                                        tiny GPT-2 in several files
    safetensors_files.py check FOLDER   compares with ours: ours.safetensors, and the checkpoints
                                        step-1 (one file) and step-2 (one file a stage)

Exits 1, and says what differs, if something does.
"""

import sys
from pathlib import Path

import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file

DTYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64",
          "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]


def tensors():
    numbers = (torch.arange(15, dtype=torch.float32).reshape(3, 5) - 4).abs()
    out = {}
    for name in DTYPES:
        dtype = getattr(torch, name)
        out[name] = numbers.clone().to(dtype)
        out[name + ".scalar"] = numbers[1, 2].clone().to(dtype)
        out[name + ".empty"] = torch.empty(2, 0, 3, dtype=dtype)
    return out


def make(folder):
    save_file(tensors(), folder / "theirs.safetensors", {"format": "pt", "word": "ü \"x\""})
    torch.manual_seed(3)
    config = transformers.GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=4, n_head=2,
                                     bos_token_id=None, eos_token_id=None)
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(folder / "hf", max_shard_size="8KB")
    assert (folder / "hf" / "model.safetensors.index.json").exists(), "transformers wrote one file"


def same(name, ours, theirs):
    assert ours.dtype == theirs.dtype, f"{name}: {ours.dtype} is not {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{name}: {ours.shape} is not {theirs.shape}"
    raw = [bytes(t.contiguous().flatten().view(torch.uint8).tolist()) for t in (ours, theirs)]
    assert raw[0] == raw[1], f"{name} differs"


def check(folder):
    ours, wanted = load_file(folder / "ours.safetensors"), tensors()
    assert ours.keys() == wanted.keys()
    for name, tensor in wanted.items():
        same(name, ours[name], tensor)
    with safetensors.safe_open(folder / "ours.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "word": "ü \"x\""}, file.metadata()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "hf").state_dict()
    for step in ("step-1", "step-2"):
        loaded, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder / step, output_loading_info=True)
        problems = {key: value for key, value in info.items() if value}
        assert not problems, f"{step}: {problems}"
        state = loaded.state_dict()
        assert state.keys() == model.keys()
        for name, tensor in model.items():
            same(f"{step} {name}", state[name], tensor)


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
