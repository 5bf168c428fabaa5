"""What README.md shows of `./trireme train` is what the program prints.

The whole run takes minutes, and its numbers, its sample and its schedule differ from machine to
machine: a short run must print the same kinds of lines, in the same order."""
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
    readme = (ROOT / "README.md").read_text()
    return re.search(r"```\n\$ \./trireme train\n(.*?)\n```", readme, re.DOTALL).group(1)


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [program, "train", "--training.steps", "2", "--training.global_batch_size", "8",
             "--validation.steps", "1"],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
            errors="replace")
    if run.returncode != 0:
        sys.exit(f"trireme train ended with {run.returncode}:\n{run.stdout}")
    wanted, got = kinds_of(shown()), kinds_of(run.stdout)
    if wanted != got or set(wanted) != set(KINDS):
        sys.exit(f"README.md shows lines like\n{wanted}\nbut the program printed\n{got}\n{run.stdout}")


if __name__ == "__main__":
    main()
