"""E3CS (Huang et al., IEEE IoT-J 2022): Figs. 3 and 4, Tables II and III, with the paper's draw and with exact ones.

    python fedselect/studies/e3cs.py
    python fedselect/studies/e3cs.py --paper
    python fedselect/studies/e3cs.py --paper --dataset emnist-letters --root DATA

100 clients in four classes return with probability 0.1, 0.3, 0.6 and 0.9; 20 are drawn a round. First the seven
schemes select for 2 500 rounds (Figs. 3 and 4): nothing is trained, except for pow-d, which looks at losses. Then they
train. The paper draws by torch.multinomial and takes the probabilities it passes for inclusion probabilities; they are
not (``successive`` below). ``madow`` and ``dep-round`` keep them exactly, so each scheme is shown with both.

The paper prints its figures without numbers. What stands beside ours there is what its setting implies: the limit that
a scheme approaches when all that the quota leaves goes to the most reliable class, and, for every scheme, that clients
return as often as their probabilities promise (Eq. 9). Whether a client returns is drawn anew in every round, as the
paper says; a public implementation by others draws it once for the whole run, where E3CS-0 comes near 1.

Without the paper's data, training is on scikit-learn's digits, all of it a tenth: 50 samples a client instead of 500,
batches of 4 instead of 40, so that clients take as many steps. Then orders and speed-ups compare, not rounds. 100
clients of 50 samples share 1 437 digits 3.5-fold, so that their losses do not tell who trained: pow-d is another scheme
on them. ``--dataset letters`` has 500 samples a client of 50 000 letters that fonts drew, in 26 classes.

The paper does not give pow-d's d; 30 is taken, with which its order of fairness holds (with 50 it does not).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import kendalltau

from fedselect.experiments import read_records, read_summary
from fedselect.experiments.figures import panels_figure, save_figure
from fedselect.experiments.metrics import learning_curve, round_table, rounds_to
from fedselect.studies.e3cs_selection import (
    WHY_LIMIT,
    WHY_PROMISE,
    count_table,
    counts_figure,
    fairness,
    limits,
    selection_rows,
    selections,
    success_figure,
)
from fedselect.studies.e3cs_setting import (
    DRAWS,
    PAPER,
    QUICK,
    QUOTAS,
    SCHEDULES,
    SCHEMES,
    STYLES,
    TASKS,
    Scale,
    experiment,
    pairs,
    selector,
)
from fedselect.studies.grid import run_grid
from fedselect.studies.paired import half_width, of_baseline
from fedselect.studies.parts import write_tables
from fedselect.studies.printing import show
from fedselect.studies.published import beside_paper, published_cells
from fedselect.studies.script import run_script, study_arguments

#: Rounds to three accuracies and the final accuracy (%), each iid and non-iid.
TABLES = {"emnist-letters": "Table II", "cifar10": "Table III"}

# -- what is run -------------------------------------------------------------------------------------------------------


def training(scale: Scale, dataset: str, root: Path, out: Path, jobs: int) -> tuple[pd.DataFrame, dict]:
    """Train every scheme; one row for each run and measure, and the accuracy curves."""
    task, grid = TASKS[dataset], {}
    rounds = max(1, round(task.rounds * scale.training_share))
    for seed in range(scale.training_seeds):
        for update in scale.updates:
            for partition in ("iid", "non-iid"):
                for scheme, draw in pairs(DRAWS[:2] if update == "A" else DRAWS[:1]):
                    changes: dict[str, Any] = {"name": f"{partition}-{update}", "rounds": rounds}
                    changes["selector"] = selector(scheme, draw)
                    each = experiment(dataset, root, partition, seed, update, **changes)
                    grid[update, partition, scheme, draw, seed] = each
    rows: list[dict[str, Any]] = []
    curves: dict[tuple[str, ...], list[pd.Series]] = {}
    for key, folder in run_grid(grid, out / "runs", jobs, "training").items():
        table, end = round_table(read_records(folder)), read_summary(folder)
        values = {f"rounds to {a} %": rounds_to(table, a / 100) for a in task.accuracies}
        values |= {"final accuracy": 100 * end["final_accuracy"], "success ratio": end["success_ratio"]}
        labels = dict(zip(("update", "partition", "scheme", "draw", "seed"), key, strict=True))
        rows += [{"part": "training", **labels, "measure": name, "value": value} for name, value in values.items()]
        curves.setdefault(key[:-1], []).append(learning_curve(table))
    return pd.DataFrame(rows).astype({"value": float}), curves


# -- tables ------------------------------------------------------------------------------------------------------------

WHY_ORDER = {
    "iid": "clients share samples 3.5-fold, so that losses do not follow who trained, and pow-d is quick; see letters",
    "non-iid": "pow-d as in iid, more so; FedCS keeps to 20 clients, whose main labels leave some of ten out",
}  # on digits


def why_training(dataset: str) -> str:
    """What explains that trained numbers differ."""
    if dataset == "digits":
        return "digits and one hidden layer instead of letters and a CNN: the order compares, the size does not"
    if dataset == "letters":
        return "letters that fonts drew and one hidden layer instead of handwriting and a CNN"
    return "evaluation, normalisation, pooling and pow-d's d are not stated in the paper"


def published(dataset: str) -> dict[tuple[str, ...], float]:
    """The paper's table: (update, partition, scheme, measure) -> number."""
    cells = published_cells("e3cs", TABLES[TASKS[dataset].published]).items()
    return {(*group.split(", "), scheme, measure): value for (group, scheme, measure), value in cells}


def against_random(rows: pd.DataFrame) -> pd.DataFrame:
    """Speed-ups over Random, and accuracy above Random's, each within its seed."""
    cell = ["update", "partition", "seed", "measure"]
    rows = rows[rows["measure"] != "success ratio"]
    theirs = of_baseline(rows, "scheme", "Random", cell)
    is_rounds = rows["measure"].str.startswith("rounds")
    return rows.assign(
        value=np.where(is_rounds, theirs / rows["value"], rows["value"] - theirs),
        measure=np.where(is_rounds, "speed-up" + rows["measure"].str[6:], "accuracy above Random's"),
    )


def beside(rows: pd.DataFrame, dataset: str, relative: bool) -> pd.DataFrame:
    """The paper's table beside ours; its E3CS is the one with the successive draw."""
    keys = ["update", "partition", "scheme", "draw", "measure"]
    paper = pd.DataFrame(
        [(*key[:3], "successive" if key[2] in QUOTAS else "", key[3], 0, v) for key, v in published(dataset).items()],
        columns=[*keys, "seed", "value"],
    )
    paper = paper[paper["update"].isin(rows["update"]) & paper["scheme"].isin(rows["scheme"])]
    ours, theirs = (against_random(each) if relative else each for each in (rows, paper))
    if relative:  # Random against itself says nothing
        ours, theirs = (each[each["scheme"] != "Random"] for each in (ours, theirs))
    else:
        ours = ours[ours["measure"] != "success ratio"]
    numbers = theirs.set_index(keys)["value"].to_dict()
    return beside_paper(ours, numbers, keys, "value", {(): why_training(dataset)})


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """The same with one column a measure: our mean, and the paper's number in brackets."""
    text = [
        f"{ours:.2f}" + ("" if np.isnan(paper) else f" ({paper:.2f})")
        for ours, paper in zip(table["ours"], table["paper"], strict=True)
    ]
    wide = table.assign(text=text).set_index(["update", "partition", "scheme", "draw", "measure"])["text"]
    return wide.unstack("measure", sort=False).reset_index()


def orders(rows: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Whether the seven schemes come in the paper's order, for every column of its table."""
    theirs, reasons = published(dataset), WHY_ORDER if dataset == "digits" else {}
    rows = rows[rows["draw"].isin(("successive", "")) & (rows["measure"] != "success ratio")]
    found = []
    for cell, part in rows.groupby(["update", "partition", "measure"], sort=False):
        # Means are over the seeds that get there; where none does, the scheme comes last.
        slow = cell[2].startswith("rounds")
        ours = part.groupby("scheme", sort=False)["value"].apply(lambda v: np.inf if v.isna().all() else v.mean())
        paper = pd.Series({s: theirs[(*cell[:2], s, cell[2])] for s in ours.index}).fillna(np.inf)
        tau, chance = kendalltau(paper.rank(), ours.rank())
        others = [scheme for scheme in ours.index if scheme != "pow-d"]
        verdict = "not beyond chance" if not chance < 0.05 else "agrees" if tau > 0 else "reversed"
        theirs_first, ours_first = (" > ".join(each.sort_values(ascending=slow).index) for each in (paper, ours))
        found.append(
            dict(zip(("update", "partition", "measure"), cell, strict=True))
            | {"paper's order": theirs_first, "our order": ours_first, "tau": float(tau)}
            | {"without pow-d": float(kendalltau(paper[others].rank(), ours[others].rank()).statistic)}
            | {"verdict": verdict, "why": "" if verdict == "agrees" else reasons.get(cell[1], "unexplained")}
        )
    return pd.DataFrame(found)


def exact_minus_successive(rows: pd.DataFrame) -> pd.DataFrame:
    """What an exact draw changes, paired by seed: mean difference and half its 95 % confidence interval."""
    both = rows[rows["draw"].isin(("successive", "madow")) & (rows["update"] == "A")]
    keys = ["partition", "scheme", "measure"]
    wide = both.pivot_table(index=[*keys, "seed"], columns="draw", values="value", sort=False)
    change = (wide["madow"] - wide["successive"]).groupby(keys, sort=False)
    text = change.apply(lambda each: f"{each.mean():+.3f} ± {half_width(each):.3f}")
    return text.unstack("measure", sort=False).reset_index()


# -- figures -----------------------------------------------------------------------------------------------------------


def accuracy_figure(curves: dict) -> Figure:
    """Figs. 5 and 6: test accuracy of every scheme, means over seeds, the paper's draw; (c, d) where FedProx ran."""
    updates = [update for update in SCHEDULES if any(key[0] == update for key in curves)]
    panels = {
        f"{partition} ({update})": {
            s: curves[update, partition, s, "successive" if s in QUOTAS else ""] for s in SCHEMES
        }
        for update in updates
        for partition in ("iid", "non-iid")
    }
    return panels_figure(panels, STYLES, "test accuracy", size=(4.5 * len(panels), 3.6))


def main(argv: Sequence[str] | None = None, scale: Scale | None = None) -> Path:
    """Run what is missing of the study and show it; return the folder of its tables and figures."""
    arguments = study_arguments(__doc__.partition("\n")[0], "e3cs", tuple(TASKS), argv)
    scale = scale or (PAPER if arguments.paper else QUICK)
    dataset, out, reference = arguments.dataset, arguments.out, TASKS[arguments.dataset].published
    where = (dataset, arguments.root, out, arguments.jobs)
    experiment(dataset, arguments.root, "iid").federation()  # missing files are noticed now, not later

    runs = selections(scale, *where)
    chosen = selection_rows(runs)
    ratio = chosen[chosen["measure"] == "success ratio"]
    beyond = chosen[chosen["measure"] == "success beyond the promised"]
    cell, kept_promise = ["scheme", "draw"], {pair: 0.0 for pair in pairs(DRAWS) if pair[0] in QUOTAS}
    at_limit = beside_paper(ratio, limits(), cell, "value", WHY_LIMIT)
    promise = beside_paper(beyond, kept_promise, cell, "value", WHY_PROMISE)
    tables = {
        "Fig. 4: success ratio at the end, against its limit": at_limit,
        "Success ratio minus what p promised, which the paper takes for 0": promise,
    }
    counts, fair = count_table(chosen), fairness(chosen)
    show(counts, f"Fig. 3: times selected in {scale.selections} rounds, mean (median) over a class")
    show(fair, "Order of fairness: Jain's index of the counts")
    for title, table in tables.items():
        show(table, title, 4)

    trained, curves = training(scale, *where)
    compared = {f"Training on {dataset}, against Random; the paper's on {reference}": beside(trained, dataset, True)}
    if dataset == reference:
        compared[f"Training on {dataset}: rounds and accuracy"] = beside(trained, dataset, False)
    for title, table in compared.items():
        show(wide(table), f"{title}; ours (the paper's)")
    print(why_training(dataset), end="\n\n")
    order, matters = orders(trained, dataset), exact_minus_successive(trained)
    title = "Order of the seven schemes, E3CS with the paper's draw, by Kendall's tau"
    show(order, f"{title}; the paper's on {reference}", 2)
    show(matters, "Exact draw minus the paper's draw, paired by seed, ± half the 95 % interval")

    tables |= compared
    results = {
        "results": pd.concat([chosen, trained]),
        "beside-paper": pd.concat([table.assign(table=title) for title, table in tables.items()]),
        "counts": counts,
        "fairness": fair,
        "training": pd.concat(map(wide, compared.values())),
        "orders": order,
        "exact-draws": matters,
    }
    write_tables(out, results)
    save_figure(counts_figure(runs), out / "selections.png", dpi=110)
    save_figure(success_figure(runs), out / "success-ratio.png", dpi=110)
    save_figure(accuracy_figure(curves), out / "accuracy.png", dpi=110)
    print(f"tables, results.csv and figures: {out}")
    return out


if __name__ == "__main__":
    run_script(main)
