#!/usr/bin/env python3
"""Draws what data parallelism adds to a step, from the file that `trireme bench ddp --json` writes.

    bench/draw_ddp.py ddp.json > docs/data_parallel/added_time.svg

Two panels, both axes logarithmic: by the number of parameters, and by the number of ranks.
"""

import json
import math
import re
import sys

WIDTH, HEIGHT, LEFT, TOP = 300, 200, 62, 44
SIDES = (("ours", "Trireme", "#2f6db5"), ("peer", "torch, gloo", "#c2571a"))
STYLE = """<style>
text{font:11px system-ui,sans-serif;fill:#222}.t{font-size:13px;font-weight:600}
.n{text-anchor:middle}.v{text-anchor:end}.g{stroke:#dcdce2}.bg{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#33363d}.bg{fill:#16181d}}
</style>"""


def points(records, pattern):
    """(x, record) for each case whose name fits; x is the pattern's group."""
    found = [(re.fullmatch(pattern, record["case"]), record) for record in records]
    return sorted(((int(match[1]), record) for match, record in found if match), key=lambda p: p[0])


def panel(left, title, axis, found):
    values = [r[side] for _, r in found for side, _, _ in SIDES if r[side]]
    low, high = (f(math.log10(v)) for f, v in ((math.floor, min(values)), (math.ceil, max(values))))
    first, last = math.log(found[0][0]), math.log(found[-1][0])

    def x_of(x):
        return left + WIDTH * (math.log(x) - first) / (last - first)

    def y_of(y):
        return TOP + HEIGHT * (high - math.log10(y)) / (high - low)

    yield f'<text class="t" x="{left}" y="{TOP - 22}">{title}</text>'
    for power in range(low, high + 1):
        y = y_of(10**power)
        label = f"{10**power:g} µs" if power < 3 else f"{10 ** (power - 3):g} ms"
        yield f'<path class="g" d="M{left} {y:.1f}h{WIDTH}"/>'
        yield f'<text class="v" x="{left - 6}" y="{y + 4:.1f}">{label}</text>'
    for x, _ in found:
        yield f'<text class="n" x="{x_of(x):.1f}" y="{TOP + HEIGHT + 18}">{x}</text>'
    yield f'<text class="n" x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 36}">{axis}</text>'
    for side, name, color in SIDES:
        line = [(x_of(x), y_of(r[side])) for x, r in found if r[side]]
        if not line:
            continue
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in line)
        yield f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        for x, y in line:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'
        yield f'<text class="v" x="{line[-1][0]:.1f}" y="{line[-1][1] - 8:.1f}">{name}</text>'


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        records = json.load(file)
    by_parameters = points(records, r"(\d+) parameters of linears of 16, 2 ranks")
    by_ranks = points(records, r"64 linears of 64, (\d+) ranks")
    if len(by_parameters) < 2 or len(by_ranks) < 2:
        sys.exit("draw_ddp.py: expected the cases of a full run; leave out --quick and --case")
    second = LEFT + WIDTH + 90
    width, height = second + WIDTH + 24, TOP + HEIGHT + 50
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
          f'viewBox="0 0 {width} {height}" role="img">')
    print(STYLE)
    print(f'<rect class="bg" width="{width}" height="{height}"/>')
    lines = [*panel(LEFT, "Added to a step, 2 ranks", "parameters (linears of 16)", by_parameters),
             *panel(second, "Added to a step, 64 linears of 64", "ranks", by_ranks)]
    print("\n".join(lines))
    print("</svg>")


if __name__ == "__main__":
    main()
