"""The picture of the gap over seconds for rounds of few of many: ``few_of_many_picture.py traces.csv picture.png``.

The traces are those that ``bench_few_of_many.py --traces`` writes; the gap is that of the bound so far to the round's
best value.
"""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from pathlib import Path


def curves(path: Path) -> list[tuple[str, list[float], list[float]]]:
    """Label, seconds and gaps in per cent of each round in a file of traces."""
    found = []
    with path.open(newline="") as file:
        for (_, share, size, there, played), rows in groupby(csv.reader(file), key=lambda row: tuple(row[:5])):
            points = [[float(value) if value else None for value in row[5:8]] for row in rows]
            best = max(objective for _, objective, _ in points if objective is not None)
            bounds = [(seconds, bound) for seconds, _, bound in points if bound is not None]
            gaps = [100 * max(bound - best, 0.0) / abs(best) for _, bound in bounds]
            here = "all there" if float(there) == 1 else f"{100 * float(there):.0f} % there"
            labels = "two labels" if share == "two" else f"shares of {share}"
            found.append((f"{labels}, m = {size}, {here}, after {played}", [seconds for seconds, _ in bounds], gaps))
    return found


def main(traces: str, picture: str) -> None:
    """Draw a step curve for each round."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    styles = ["-", "--", "-.", ":", (0, (5, 1))]
    for (label, seconds, gaps), style in zip(curves(Path(traces)), styles, strict=False):
        axes.step(seconds, gaps, where="post", linestyle=style, label=label)
    axes.set(xscale="log", yscale="log", xlabel="seconds of processor time", ylabel="gap to the best value, per cent")
    axes.axhline(1.0, color="0.7", linewidth=0.8)
    axes.set_ylim(bottom=1e-2)
    axes.legend(fontsize=8)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:3])
