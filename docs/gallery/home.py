"""Draw the figure of the home page: how evenly clients take part, and how one round is proven.

First ``fedselect compare examples/demo.toml --selectors uniform,fedgs --seeds 0-4 --out FOLDER``, whose table is
home.txt, then ``python docs/gallery/home.py FOLDER/demo``. Writes home.png, its halves beside the
quickstart, and home.csv with the numbers in it.
"""

import csv
import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from solvers import solve
from solvers.instances import load

HERE = Path(__file__).parent
ROUND = "fedgs-digits-dirichlet-n100-m10-ideal-r5"
COLOURS = {"uniform": "#E69F00", "fedgs": "#0072B2"}  # apart for colour-blind readers


def sorted_counts(folder: Path) -> dict[str, np.ndarray]:
    """Selections of each client, rising, a row for each run of a selector."""
    runs = json.loads((folder / "comparison.json").read_text())["runs"]
    found = {}
    for label, names in runs.items():
        tables = [csv.DictReader((folder / name / "clients.csv").read_text().splitlines()) for name in names]
        found[label] = np.array([sorted(int(row["selected"]) for row in rows) for rows in tables])
    return found


def main(folder: Path) -> None:
    """Play the round, draw both halves, write the numbers."""
    counts = sorted_counts(folder)
    solve(load(ROUND), time_limit=1.0)  # load compiled code outside the clock
    trace = solve(load(ROUND), time_limit=60.0, seed=0).trace
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    rows = []
    for label, each in counts.items():
        variance = each.var(axis=1).mean()
        name = {"uniform": "uniform sampling", "fedgs": "FedGS"}[label]
        colour = COLOURS[label]
        left.fill_between(range(each.shape[1]), each.min(axis=0), each.max(axis=0), color=colour, alpha=0.25, lw=0)
        left.plot(each.mean(axis=0), color=colour, lw=2, label=f"{name}: variance {variance:.0f}")
        rows += [("counts", label, client, value) for client, value in enumerate(each.mean(axis=0))]
        rows += [("variance", label, seed, value) for seed, value in enumerate(each.var(axis=1))]
    left.set(xlabel="clients, least selected first", ylabel="times selected in 100 rounds", title="Even participation")
    left.legend(frameon=False)
    milliseconds = [1e3 * point.second for point in trace]
    lines = (("bound", "#D55E00", "bound: no selection is better"), ("objective", "#009E73", "best selection found"))
    for key, colour, label in lines:
        values = [np.nan if (value := getattr(point, key)) is None else value for point in trace]
        right.step(milliseconds, values, where="post", color=colour, lw=2, label=label)
        rows += [("round", key, time, value) for time, value in zip(milliseconds, values, strict=True)]
    right.set(xscale="log", xlabel="milliseconds", ylabel="objective", title="A round of 100 clients, proven")
    best = max(point.objective for point in trace if point.objective is not None)
    right.set_ylim(best - 0.06 * abs(best), best + 0.2 * abs(best))
    right.legend(frameon=False)
    figure.savefig(HERE / "home.png", dpi=160)
    for name, axes in (("counts", left), ("round", right)):  # the home page stacks them on a phone
        extent = axes.get_tightbbox().padded(6).transformed(figure.dpi_scale_trans.inverted())
        figure.savefig(HERE.parent / "get_started" / f"home_{name}.png", dpi=160, bbox_inches=extent)
    with (HERE / "home.csv").open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("what", "of", "at", "value"))
        writer.writerows((what, of, f"{at:.6g}", f"{value:.6g}") for what, of, at, value in rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
