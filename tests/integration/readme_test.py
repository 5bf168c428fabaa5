"""The output that README.md shows for `./trireme train` is what the program prints.

Numbers may differ in their last digits from one processor to another."""
import math
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"\d+\.\d+")


def shown():
    readme = (ROOT / "README.md").read_text()
    return re.search(r"```\n\$ \./trireme train\n(.*?)\n```", readme, re.DOTALL).group(1)


def main():
    program = sys.argv[1]
    run = subprocess.run([program, "train"], capture_output=True, text=True, timeout=60)
    if run.returncode != 0:
        sys.exit(f"trireme train ended with {run.returncode}:\n{run.stderr}")
    wanted, got = shown(), run.stdout.rstrip("\n")
    if NUMBER.sub("#", wanted) != NUMBER.sub("#", got):
        sys.exit(f"README.md shows\n{wanted}\nbut the program printed\n{got}")
    for a, b in zip(NUMBER.findall(wanted), NUMBER.findall(got)):
        if not math.isclose(float(a), float(b), rel_tol=1e-2):
            sys.exit(f"README.md shows {a} where the program printed {b}")


if __name__ == "__main__":
    main()
