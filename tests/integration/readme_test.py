"""What README.md shows of `./trireme train` is what the program prints.

A whole run takes minutes, and its numbers, its sample and its schedule differ from machine to
machine: a short run must print the same kinds of lines, in the same order."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Every line of the README's output that begins like this must have its like.
KINDS = ("model: gpt2, ", "ranks: ", "schedule: ", "held-out loss before: ", "step ",
         "the schedule, planned:", "the last step, measured:", "the last step:", "held-out loss: ", "a sample:", "written to ", "checkpoint: ",
         "sample it: ", "train on: ", "your text: ")


def kinds_of(output):
    found = []
    for line in re.split(r"[\r\n]+", output):
        kind = next((kind for kind in KINDS if line.startswith(kind)), None)
        if kind and (not found or found[-1] != kind):
            found.append(kind)
    return found


def shown():
    """The words of each run in README.md, and what it printed there."""
    readme = (ROOT / "README.md").read_text()
    return re.findall(r"```\n\$ \./trireme (train[^\n]*)\n(.*?)\n```", readme, re.DOTALL)


def check(program, words, printed):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [program, *words.split(), "--training.steps", "2", "--training.global_batch_size", "8",
             "--validation.steps", "1"],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
            errors="replace")
    if run.returncode != 0:
        sys.exit(f"trireme {words} ended with {run.returncode}:\n{run.stdout}")
    # A line of dots stands for lines that are left out.
    parts = [kinds_of(part) for part in re.split(r"(?m)^…$", printed)]
    got = rest = kinds_of(run.stdout)
    for i, part in enumerate(parts):
        places = [at for at in range(len(rest) + 1) if rest[at:at + len(part)] == part]
        if not places or (i == 0 and places[0] != 0):
            sys.exit(f"README.md shows for {words} lines like\n{part}\nbut the program printed\n{got}\n"
                     f"{run.stdout}")
        rest = rest[places[0] + len(part):]
    if rest and len(parts) == 1:
        sys.exit(f"README.md shows nothing of\n{rest}\nfor {words}:\n{run.stdout}")
    return [kind for part in parts for kind in part]


def main():
    # README.md shows a machine with two cores; with more there are other layouts.
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit(77)
    os.sched_setaffinity(0, cores[:2])
    program = pathlib.Path(sys.argv[1]).resolve()
    seen = {kind for words, printed in shown() for kind in check(program, words, printed)}
    if seen != set(KINDS):
        sys.exit(f"README.md shows no line like {sorted(set(KINDS) - seen)}")


if __name__ == "__main__":
    main()
