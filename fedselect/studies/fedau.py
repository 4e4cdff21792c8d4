"""FedAU's comparison under unknown participation, and its weights against Theorem 3 (Wang & Ji, ICLR 2024).

    python fedselect/studies/fedau.py
    python fedselect/studies/fedau.py --paper --dataset synthetic
    python fedselect/studies/fedau.py --paper --dataset cifar10 --root DATA

250 clients whose data and participation rates depend on the same label mixes, 5 local steps on batches of 16, under
three patterns of participation. The paper's numbers are known for image data alone (its poster's table, which leaves
out FedVARP and MIFA). On other data only orders and signs compare, and that is what is printed: how far FedAU leads
every other method, and how alike the orders of the methods are.

Learning rates: ``--quick`` takes those of the authors' README (for CIFAR-10). ``--paper`` tunes a pair for each method:
of a grid of half decades, the best three after 250 rounds go on to the full length, and the lowest objective on average
over the three patterns wins, each pattern under a seed of its own that is reported nowhere else. A pair serves all
patterns, since nobody knows the pattern, and a lead under one pattern cannot come from rates tuned to it. Data, rates
of participation, model and batches all depend on the seed, as in the authors' code. Weights and server rate are
confounded, so FedAU (K = 50) also meets known participation at equal rates. With images, models are
initialised and batches augmented as in the code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from fedselect.experiments import read_records, read_summary
from fedselect.experiments.figures import panels_figure, save_figure
from fedselect.experiments.metrics import learning_curve, round_table
from fedselect.progress import progress_bar
from fedselect.studies.fedau_setting import IMAGES, METHODS, PAPER, PATTERNS, QUICK, TUNING_SEEDS, Scale, experiment
from fedselect.studies.fedau_weights import error_table, weight_errors, weights_figure
from fedselect.studies.grid import run_grid
from fedselect.studies.paired import half_width
from fedselect.studies.parts import write_tables
from fedselect.studies.printing import show
from fedselect.studies.published import beside_paper, published_table
from fedselect.studies.script import run_script, study_arguments
from fedselect.studies.tuning import tune
from fedselect.training.settings import TrainingSettings

# -- the paper's numbers -----------------------------------------------------------------------------------------------

#: Test accuracy in per cent on SVHN, CIFAR-10, CIFAR-100 and CINIC-10, from the poster.
PUBLISHED = published_table("fedau", "test accuracy, %")

#: Training accuracy in the same order; FedVARP and MIFA are not in the poster.
PUBLISHED_TRAINING = published_table("fedau", "training accuracy, %")

# -- what is run -------------------------------------------------------------------------------------------------------

Rates = dict[str, TrainingSettings]

#: Who meets at equal rates; weights alone tell them apart.
RIVALS = ("FedAU, K = 50", "known participation")


def own_rates(dataset: str, root: Path, scale: Scale, out: Path, jobs: int) -> tuple[Rates, pd.DataFrame]:
    """Each method's settings at its own rates, the same under all patterns, and what was tried to find them."""
    runs = {
        method: [experiment(p, method, dataset, root, scale, seed) for p, seed in TUNING_SEEDS.items()]
        for method in METHODS
    }
    if not scale.local:
        return {method: own[0].training for method, own in runs.items()}, pd.DataFrame()
    named = {method: [replace(each, name="tuning") for each in own] for method, own in runs.items()}
    grid = {"learning_rate": scale.local, "server_learning_rate": scale.server}
    with progress_bar("tuning", 1) as progress:
        rates, trials = tune(named, grid, out / "runs", jobs, progress, screening=scale.screening)
    rows = [
        {"method": trial.label, "rounds": trial.rounds}
        | {"local rate": trial.settings["learning_rate"], "server rate": trial.settings["server_learning_rate"]}
        | {"objective": trial.value, **dict(zip(TUNING_SEEDS, trial.values, strict=True))}
        for trial in trials
    ]
    return rates, pd.DataFrame(rows)


def at_server_rate(own: Rates, server: float) -> Rates:
    """The rivals' settings at FedAU's local rate and this server rate."""
    local = own[RIVALS[0]].learning_rate
    return {method: replace(own[method], learning_rate=local, server_learning_rate=server) for method in RIVALS}


def compare_methods(settings: Rates, dataset: str, root: Path, scale: Scale, out: Path, jobs: int) -> pd.DataFrame:
    """Run every method under every pattern and seed; one row a run, accuracies in per cent."""
    planned = {
        (pattern, method, seed): replace(experiment(pattern, method, dataset, root, scale, seed), training=training)
        for seed in scale.seeds
        for pattern in PATTERNS
        for method, training in settings.items()
    }
    rows = []
    for (pattern, method, seed), folder in run_grid(planned, out / "runs", jobs).items():
        summary, training = read_summary(folder), settings[method]
        clients = pd.read_csv(folder / "clients.csv")
        curve = learning_curve(round_table(read_records(folder)))
        rows.append(
            {"pattern": pattern, "method": method, "seed": seed}
            | {"local rate": training.learning_rate, "server rate": training.server_learning_rate}
            | {"accuracy": 100 * curve.tail(math.ceil(len(curve) / 10)).mean()}  # over the last tenth
            | {"training accuracy": 100 * float(np.average(clients["accuracy"], weights=clients["samples"]))}
            | {"objective": summary["client_loss_mean"], "worst client's loss": summary["client_loss_worst"]}
            | {"importance distance": summary["importance_distance"], "folder": folder}
        )
    return pd.DataFrame(rows)


# -- tables ------------------------------------------------------------------------------------------------------------


def of_dataset(table: Mapping[str, Mapping[str, tuple[float, ...]]], dataset: str) -> dict[tuple[str, ...], float]:
    """The poster's numbers of a data set by (pattern, method); empty where it has none."""
    if dataset not in IMAGES:
        return {}
    column = IMAGES.index(dataset)
    return {(pattern, name): row[column] for pattern, methods in table.items() for name, row in methods.items()}


def leads(runs: pd.DataFrame) -> pd.DataFrame:
    """How far FedAU (K = 50) leads each method in test accuracy, with a 95 % interval over seeds, beside the paper."""
    wide = runs.pivot(index=["pattern", "seed"], columns="method", values="accuracy")
    rows = []
    for pattern, methods in PUBLISHED.items():
        for method in METHODS:
            if method == "FedAU, K = 50" or method not in wide:
                continue
            lead = (wide["FedAU, K = 50"] - wide[method]).loc[pattern]
            half = half_width(lead)
            theirs = np.subtract(methods["FedAU, K = 50"], methods[method]) if method in methods else np.array([])
            rows.append(
                {"pattern": pattern, "method": method, "lead": lead.mean(), "+-": half}
                | {"paper's leads": f"{theirs.min():.1f} to {theirs.max():.1f}" if theirs.size else "-"}
                | {"verdict": _verdict(lead.mean() - half, lead.mean() + half, theirs)}
            )
    return pd.DataFrame(rows)


def _verdict(low: float, high: float, theirs: np.ndarray) -> str:
    """What an interval of ours says, and whether it is what the paper's four leads say."""
    if low <= 0 <= high:
        return "open"
    words, sign = ("ahead", 1) if low > 0 else ("behind", -1)
    if not theirs.size:
        return words
    if theirs.min() <= 0 <= theirs.max():
        return f"{words}, where the paper has both"
    if (np.sign(theirs) != sign).any():
        return f"{words}, unlike the paper"
    if low > theirs.max() or high < theirs.min():
        return f"{words}, by {'more' if low > theirs.max() else 'less'} than in the paper"
    return f"{words}, as in the paper"


def orders(runs: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rank correlation of our order of the methods with the paper's on each of its data sets."""
    ours = runs.groupby(["pattern", "method"])["accuracy"].mean().round(9)  # rounding errors are no order
    rows = []
    for pattern, methods in PUBLISHED.items():
        mine = [ours[pattern, method] for method in methods]
        theirs = np.array(list(methods.values()))
        correlations = {name: spearmanr(mine, column).statistic for name, column in zip(IMAGES, theirs.T, strict=True)}
        rows.append({"pattern": pattern, **correlations})
    return pd.DataFrame(rows)


# -- figures -----------------------------------------------------------------------------------------------------------

METHOD_STYLES = {
    "FedAU, K = ∞": ("#D55E00", "-"),
    "FedAU, K = 50": ("#E69F00", "--"),
    "average participating": ("#0072B2", "-"),
    "average all": ("#56B4E9", "--"),
    "known participation": ("#009E73", "-."),
    "FedVARP": ("#CC79A7", ":"),
    "MIFA": ("#000000", "-."),
}


def accuracy_figure(runs: pd.DataFrame) -> Figure:
    """Test accuracy over the rounds under each pattern, mean over seeds."""
    panels: dict[str, dict[str, list[pd.Series]]]
    panels = {pattern: {method: [] for method in METHODS} for pattern in PATTERNS}
    for row in runs.itertuples():
        panels[row.pattern][row.method].append(100 * learning_curve(round_table(read_records(row.folder))))
    return panels_figure(panels, METHOD_STYLES, "test accuracy, %", size=(9, 3.2))


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the study; see this file's first lines; return the folder of tables and figures."""
    datasets = ("digits", "synthetic", *IMAGES)
    arguments = study_arguments(__doc__.partition("\n")[0], "fedau", datasets, argv)
    dataset, root, out = arguments.dataset, arguments.root, arguments.out
    scale = PAPER if arguments.paper else QUICK
    errors = weight_errors(dataset, root, scale, out)
    own, tried = own_rates(dataset, root, scale, out, arguments.jobs)
    runs = compare_methods(own, dataset, root, scale, out, arguments.jobs)
    rivals = {
        server: compare_methods(at_server_rate(own, server), dataset, root, scale, out, arguments.jobs)
        for server in scale.equal
    }

    order = ["pattern", "method"]
    published, of_training = (of_dataset(table, dataset) for table in (PUBLISHED, PUBLISHED_TRAINING))
    why: dict[tuple[str, ...], str] = {(): f"{scale.rounds} rounds, other learning rates"}
    table = beside_paper(runs, published, order, "accuracy", why)
    trained = beside_paper(runs, of_training, order, "training accuracy", why)
    more = ["local rate", "server rate", "objective", "worst client's loss"]
    table = table.merge(runs.groupby(order, sort=False)[more].mean().reset_index(), on=order)
    weights, ahead, alike = error_table(errors), leads(runs), orders(runs)
    local = own[RIVALS[0]].learning_rate
    equal_rates = pd.concat(
        [leads(each).assign(**{"local rate": local, "server rate": server}) for server, each in rivals.items()]
    )

    cutoffs = weights["K"].map(lambda k: f"{k:.0f}" if math.isfinite(k) else "∞")
    show(weights.assign(K=cutoffs), "Weight error (mean over seeds) and Theorem 3's bound with constant 1", 4)
    best = errors[errors["pattern"] == "Bernoulli"].groupby("T")[["corollary 4", "bound's best"]].mean().reset_index()
    best["measured best"] = [weights["K"][part["Bernoulli"].idxmin()] for _, part in weights.groupby("T")]
    show(best, "Best cutoff K (mean over seeds)", 1)
    printed = table if published else table.drop(columns=["paper", "verdict", "why"])
    show(printed, f"Test accuracy on {dataset} over the last tenth of the rounds, per cent", 3)
    show(ahead, "Lead of FedAU (K = 50), percentage points; the paper's on four image data sets", 2)
    show(equal_rates, "The same at equal rates, where weights alone tell the two apart", 2)
    if not tried.empty:
        show(tried, "Learning rates tried: the objective, mean and under each pattern's tuning seed", 3)
    show(
        trained if published else trained.drop(columns=["paper", "verdict", "why"]),
        f"Training accuracy on {dataset} after the last round, per cent",
        2,
    )
    show(alike, "Rank correlation of the order of five methods with the paper's", 2)
    tables = {"results": runs.drop(columns="folder"), "weights": weights, "accuracy": table, "leads": ahead}
    tables |= {"orders": alike, "training-accuracy": trained, "leads-equal-rates": equal_rates}
    if not tried.empty:
        tables["tuning"] = tried
    tables["results-equal-rates"] = pd.concat(list(rivals.values())).drop(columns="folder")
    write_tables(out, tables)
    print(save_figure(weights_figure(errors, dataset, root, scale), out / "weights.png"))
    print(save_figure(accuracy_figure(runs), out / "curves.png"))
    return out


if __name__ == "__main__":
    run_script(main)
