"""FedAU's comparison under unknown participation, and its weights against Theorem 3 (Wang & Ji, ICLR 2024).

    python fedselect/studies/fedau.py
    python fedselect/studies/fedau.py --paper --dataset synthetic
    python fedselect/studies/fedau.py --paper --dataset cifar10 --root DATA

250 clients whose data and participation rates depend on the same label mixes, 5 local steps on batches of 16, under
three patterns of participation. The paper's numbers are known for image data alone (its poster's table, which leaves
out FedVARP and MIFA). On other data only orders and signs compare, and that is what is printed: how far FedAU leads
every other method, and how alike the orders of the methods are.

Learning rates: ``--quick`` takes those of the authors' README (for CIFAR-10), ``--paper`` the best of a grid of half
decades for every method and pattern, by the objective after 500 rounds under another seed. Data, rates of
participation, model and batches all depend on the seed, as in the authors' code. Weights and server rate are
confounded, so leads come twice: at each method's own rates, and at those of FedAU (K = 50) for all. Images are
initialised and augmented as in the code, but for CIFAR-100's colour operations.
"""

from __future__ import annotations

import itertools
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
from fedselect.studies.fedau_setting import IMAGES, METHODS, PAPER, PATTERNS, QUICK, TUNING_SEED, Scale, experiment
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

Tuned = dict[tuple[str, str], TrainingSettings]


def own_rates(dataset: str, root: Path, scale: Scale, out: Path, jobs: int) -> Tuned:
    """The settings of each method under each pattern, at its own learning rates."""
    keys = list(itertools.product(PATTERNS, METHODS))
    tuned = {(p, method): experiment(p, method, dataset, root, scale, TUNING_SEED) for p, method in keys}
    if scale.tuning_rounds:
        shorter = {key: replace(each, name="tuning", rounds=scale.tuning_rounds) for key, each in tuned.items()}
        grid = {"learning_rate": scale.local, "server_learning_rate": scale.server}
        with progress_bar("tuning", 1) as progress:
            tuned = tune(shorter, grid, out / "runs", jobs, progress)
    return {key: each.training for key, each in tuned.items()}


def equal_rates(own: Tuned) -> Tuned:
    """The same, but for learning rates: all have those of FedAU (K = 50) under the pattern."""
    found = {}
    for (pattern, method), training in own.items():
        fedau = own[pattern, "FedAU, K = 50"]
        local, server = fedau.learning_rate, fedau.server_learning_rate
        found[pattern, method] = replace(training, learning_rate=local, server_learning_rate=server)
    return found


def compare_methods(settings: Tuned, dataset: str, root: Path, scale: Scale, out: Path, jobs: int) -> pd.DataFrame:
    """Run every method under every pattern and seed; one row a run, accuracies in per cent."""
    planned = {
        (*key, seed): replace(experiment(*key, dataset, root, scale, seed), training=training)
        for seed in scale.seeds
        for key, training in settings.items()
    }
    rows = []
    for (pattern, method, seed), folder in run_grid(planned, out / "runs", jobs).items():
        summary, training = read_summary(folder), settings[pattern, method]
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
            if method == "FedAU, K = 50":
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


def main(argv: Sequence[str] | None = None) -> None:
    """Run the study; see this file's first lines."""
    datasets = ("digits", "synthetic", *IMAGES)
    arguments = study_arguments(__doc__.partition("\n")[0], "fedau", datasets, argv)
    dataset, root, out = arguments.dataset, arguments.root, arguments.out
    scale = PAPER if arguments.paper else QUICK
    errors = weight_errors(dataset, root, scale, out)
    own = own_rates(dataset, root, scale, out, arguments.jobs)
    runs = compare_methods(own, dataset, root, scale, out, arguments.jobs)
    alike_rates = compare_methods(equal_rates(own), dataset, root, scale, out, arguments.jobs)

    order = ["pattern", "method"]
    published, of_training = (of_dataset(table, dataset) for table in (PUBLISHED, PUBLISHED_TRAINING))
    why: dict[tuple[str, ...], str] = {(): f"{scale.rounds} rounds, other learning rates"}
    table = beside_paper(runs, published, order, "accuracy", why)
    trained = beside_paper(runs, of_training, order, "training accuracy", why)
    more = ["local rate", "server rate", "objective", "worst client's loss"]
    table = table.merge(runs.groupby(order, sort=False)[more].mean().reset_index(), on=order)
    weights, ahead, alike = error_table(errors), leads(runs), orders(runs)
    at_equal_rates = leads(alike_rates)

    cutoffs = weights["K"].map(lambda k: f"{k:.0f}" if math.isfinite(k) else "∞")
    show(weights.assign(K=cutoffs), "Weight error (mean over seeds) and Theorem 3's bound with constant 1", 4)
    best = errors[errors["pattern"] == "Bernoulli"].groupby("T")[["corollary 4", "bound's best"]].mean().reset_index()
    best["measured best"] = [weights["K"][part["Bernoulli"].idxmin()] for _, part in weights.groupby("T")]
    show(best, "Best cutoff K (mean over seeds)", 1)
    printed = table if published else table.drop(columns=["paper", "verdict", "why"])
    show(printed, f"Test accuracy on {dataset} over the last tenth of the rounds, per cent", 3)
    show(ahead, "Lead of FedAU (K = 50), percentage points; the paper's on four image data sets", 2)
    title = "The same with the learning rates of FedAU (K = 50) for all"
    show(at_equal_rates, f"{title}, which weights alone tell apart", 2)
    show(
        trained if published else trained.drop(columns=["paper", "verdict", "why"]),
        f"Training accuracy on {dataset} after the last round, per cent",
        2,
    )
    show(alike, "Rank correlation of the order of five methods with the paper's", 2)
    results = runs.drop(columns="folder")
    tables = {"results": results, "weights": weights, "accuracy": table, "leads": ahead, "orders": alike}
    equal = {"results-equal-rates": alike_rates.drop(columns="folder"), "leads-equal-rates": at_equal_rates}
    write_tables(out, tables | equal | {"training-accuracy": trained})
    print(save_figure(weights_figure(errors, dataset, root, scale), out / "weights.png"))
    print(save_figure(accuracy_figure(runs), out / "curves.png"))


if __name__ == "__main__":
    run_script(main)
