#!/usr/bin/env python3
"""Where the time of a build goes, from ninja's own log.

    tools/build_times.py [BUILD FOLDER] [--slowest N]

Prints seconds by module (sources, tests) and the slowest steps. For figures to compare, build from
nothing with nothing beside it, without ccache: CCACHE_DISABLE=1 cmake --build build/release.
"""

import argparse
import re
import sys
from pathlib import Path


def read_log(path):
    """The last time that each output was made: name -> (start, end) in seconds."""
    times = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if line.startswith("#") or len(fields) < 4:
            continue
        times[fields[3]] = (int(fields[0]) / 1000, int(fields[1]) / 1000)
    return times


# Libraries and tests that are parts of a module, by what they are called.
PARTS = {"net_tls": "net", "net_without_tls": "net", "comm_mpi": "comm",
         "comm_without_mpi": "comm", "tcp": "comm", "wire": "comm", "mpi": "comm"}


def module_of(output):
    """What an output belongs to: "comm", "tests of comm", "precompiled headers", "links", …"""
    if re.search(r"/trireme_(test_)?pch\.dir/", output):
        return "precompiled headers"
    if not output.endswith((".o", ".obj")):
        return "links and lists"
    match = re.search(r"CMakeFiles/([\w-]+)\.dir/", output)
    target = match.group(1) if match else output
    if target.endswith("_test"):
        name = target[:-len("_test")]
        return "tests of " + PARTS.get(name, name)
    if target.startswith("example_"):
        return "examples"
    name = target.removeprefix("trireme_")
    return PARTS.get(name, name)


def sums(times):
    """Seconds and steps by module, the largest first."""
    found = {}
    for output, (start, end) in times.items():
        seconds, steps = found.get(module_of(output), (0.0, 0))
        found[module_of(output)] = (seconds + end - start, steps + 1)
    return sorted(found.items(), key=lambda item: -item[1][0])


def report(times, slowest):
    lines = [f"{'seconds':>8} {'steps':>6}  module"]
    for module, (seconds, steps) in sums(times):
        lines.append(f"{seconds:8.1f} {steps:6d}  {module}")
    total = sum(end - start for start, end in times.values())
    lines.append(f"{total:8.1f} {len(times):6d}  all")
    lines += ["", f"{'seconds':>8}  slowest steps"]
    by_time = sorted(times.items(), key=lambda item: item[1][0] - item[1][1])
    for output, (start, end) in by_time[:slowest]:
        lines.append(f"{end - start:8.1f}  {output}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default="build/release")
    parser.add_argument("--slowest", type=int, default=15, metavar="N")
    arguments = parser.parse_args()
    log = Path(arguments.folder) / ".ninja_log"
    if not log.is_file():
        print(f"expected ninja's log at {log}, got no such file; build first (./trireme test)",
              file=sys.stderr)
        return 2
    print(report(read_log(log), arguments.slowest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
