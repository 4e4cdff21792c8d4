# Longer than 300 lines: one paper's plan, runs, tables and pictures, of training and of weights, in one place.
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
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from fedselect.availability import AVAILABILITY
from fedselect.experiments import Choice, Experiment, read_records, read_summary
from fedselect.experiments.figures import panels_figure, save_figure
from fedselect.experiments.metrics import learning_curve, round_table
from fedselect.progress import progress_bar
from fedselect.studies.grid import run_grid
from fedselect.studies.paired import half_width
from fedselect.studies.parts import kept, write_tables
from fedselect.studies.printing import show
from fedselect.studies.published import beside_paper, published_table
from fedselect.studies.script import run_script, study_arguments
from fedselect.studies.tuning import tune
from fedselect.training.settings import TrainingSettings
from solvers import solve
from solvers.participation import CutoffProblem, ParticipationWeights, expected_weight, weight_error

# -- the paper's numbers ---------------------------------------------------------------------------------------------

#: Test accuracy in per cent on SVHN, CIFAR-10, CIFAR-100 and CINIC-10, from the poster.
IMAGES = ("svhn", "cifar10", "cifar100", "cinic10")
PUBLISHED = published_table("fedau", "test accuracy, %")

#: Training accuracy in the same order; FedVARP and MIFA are not in the poster.
PUBLISHED_TRAINING = published_table("fedau", "training accuracy, %")

# -- settings --------------------------------------------------------------------------------------------------------

PATTERNS = {"Bernoulli": "fedau-bernoulli", "Markov": "fedau-markov", "cyclic": "fedau-cyclic"}

#: Selector and server rule; local and server learning rates of the authors' README.
METHODS = {
    "FedAU, K = ∞": (Choice("fedau"), "fedavg", 0.1, 1.0),
    "FedAU, K = 50": (Choice("fedau", {"cutoff": 50}), "fedavg", 0.1, 1.0),
    "average participating": (Choice("average-participating"), "fedavg", 0.0562, 1.78),
    "average all": (Choice("average-all"), "fedavg", 0.1, 10.0),
    "known participation": (Choice("known-participation"), "fedavg", 0.0562, 1.0),
    "FedVARP": (Choice("average-participating"), "fedvarp", 0.0562, 1.0),
    "MIFA": (Choice("average-participating"), "mifa", 0.0562, 1.0),
}

#: The paper's CNNs; the small tasks have one hidden layer of 64.
MODELS = {"svhn": "cnn-fedau-svhn", "cifar10": "cnn-fedau-cifar10"}
MODELS |= dict.fromkeys(("cifar100", "cinic10"), "cnn-fedau-cifar100")

#: Of the authors' code; CIFAR-100 also has colour operations there.
AUGMENTATION = {"svhn": "crop", "cifar10": "crop-flip", "cifar100": "crop-flip", "cinic10": "crop-flip"}

CUTOFFS = (1, 2, 5, 10, 20, 50, 100, 200, None)


@dataclass(frozen=True)
class Scale:
    """How much is run; without learning rates to try, the README's are taken."""

    clients: int
    rounds: int
    seeds: tuple[int, ...]
    horizons: tuple[int, ...]
    tuning_rounds: int = 0
    local: tuple[float, ...] = ()
    server: tuple[float, ...] = ()


# 2 000 rounds are the code's default; the README has 10 000 for CIFAR-10.
PAPER = Scale(
    clients=250,
    rounds=2000,
    seeds=(1, 2, 3, 4, 5),
    horizons=(500, 2000, 10000),
    tuning_rounds=500,
    local=(10**-1.5, 0.1, 10**-0.5),
    server=(1.0, 10**0.5, 10.0),  # up to the README's largest; 10^1.5 learns fast under one seed and fails under others
)
QUICK = Scale(clients=250, rounds=300, seeds=(1, 2), horizons=(500, 2000))
TUNING_SEED = 1000

# -- what is run -----------------------------------------------------------------------------------------------------


def experiment(pattern: str, method: str, dataset: str, root: Path, scale: Scale, seed: int) -> Experiment:
    """One run, at the README's learning rates."""
    selector, rule, local, server = METHODS[method]
    data: dict[str, object] = {"clients": scale.clients, "seed": seed}
    if dataset == "synthetic":
        data["samples"] = 200
    else:
        data["partition"] = "dirichlet-per-class"
    if dataset in IMAGES:
        data["root"] = str(root)
    return Experiment(
        name="fedau",
        rounds=scale.rounds,
        seed=seed,
        clients_per_round=1,  # of no account: everybody who is there takes part
        checkpoint_every=200,
        data=Choice(dataset, data),
        availability=Choice(PATTERNS[pattern]),
        selector=selector,
        training=TrainingSettings(
            model=MODELS.get(dataset, "mlp"),
            learning_rate=local,
            decay=1.0,
            local_steps=5,
            batch_size=16,
            server_rule=rule,
            server_learning_rate=server,
            importance="equal",
            evaluate_every=10,
            initialisation="kaiming" if dataset in IMAGES else "fan-in",
            augmentation=AUGMENTATION.get(dataset, "none"),
        ),
    )


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


def histories(dataset: str, root: Path, scale: Scale, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Who participates in which round, (T, N), and the rates p, (N,), under each pattern; nothing is trained."""
    federation = experiment("Bernoulli", "MIFA", dataset, root, scale, seed).federation()
    found = {}
    for pattern, name in PATTERNS.items():
        availability = AVAILABILITY.build(name, federation, seed)
        rounds = [availability.available(t) for t in range(max(scale.horizons))]
        found[pattern] = np.array(rounds), availability.rates(0)
    return found


def weight_errors(dataset: str, root: Path, scale: Scale, out: Path) -> pd.DataFrame:
    """Weight error by pattern, seed, horizon T and cutoff K, with Theorem 3's bound (constant factor 1)."""
    parts = []
    with progress_bar("weights", len(scale.seeds)) as progress:
        for seed in scale.seeds:
            parts.append(kept(out / f"weights-{seed}.csv", weight_errors_of, seed, dataset, root, scale))
            progress(len(parts), len(scale.seeds))
    return pd.concat(parts, ignore_index=True)


def weight_errors_of(seed: int, dataset: str, root: Path, scale: Scale) -> pd.DataFrame:
    """The same under one seed."""
    rows = []
    for pattern, (history, rates) in histories(dataset, root, scale, seed).items():
        for horizon in scale.horizons:
            problem = CutoffProblem(rates, horizon)
            best = {"corollary 4": solve(problem, method="corollary").x, "bound's best": solve(problem).x}
            rows += [
                {"pattern": pattern, "seed": seed, "T": horizon, "K": k or math.inf}
                | {"error": weight_error(history[:horizon], rates, k)}
                | {"bound": problem.objective(k) if k else math.nan}
                | best
                for k in CUTOFFS
            ]
    return pd.DataFrame(rows)


# -- tables ----------------------------------------------------------------------------------------------------------


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


def error_table(errors: pd.DataFrame) -> pd.DataFrame:
    """Weight errors, means over seeds: a row for each T and K, a column for each pattern, beside the bound."""
    table = errors.pivot_table(index=["T", "K"], columns="pattern", values="error")[list(PATTERNS)]
    table["Theorem 3"] = errors[errors["pattern"] == "Bernoulli"].groupby(["T", "K"])["bound"].mean()
    table["Bernoulli / Theorem 3"] = table["Bernoulli"] / table["Theorem 3"]
    return table.reset_index()


# -- figures ---------------------------------------------------------------------------------------------------------

PATTERN_STYLES = {
    "Bernoulli": ("#0072B2", "-", "o"),
    "Markov": ("#D55E00", "--", "s"),
    "cyclic": ("#009E73", ":", "^"),
}
METHOD_STYLES = {
    "FedAU, K = ∞": ("#D55E00", "-"),
    "FedAU, K = 50": ("#E69F00", "--"),
    "average participating": ("#0072B2", "-"),
    "average all": ("#56B4E9", "--"),
    "known participation": ("#009E73", "-."),
    "FedVARP": ("#CC79A7", ":"),
    "MIFA": ("#000000", "-."),
}


def weights_figure(errors: pd.DataFrame, dataset: str, root: Path, scale: Scale) -> Figure:
    """Weight error against the cutoff, and what the weights of K = 50 become for clients of each rate."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    last = errors[errors["T"] == max(scale.horizons)]
    bounded = last[np.isfinite(last["K"])]
    for pattern, (colour, dashes, marker) in PATTERN_STYLES.items():
        means = last[last["pattern"] == pattern].groupby("K")["error"].mean()
        places = [min(k, 2.5 * bounded["K"].max()) for k in means.index]
        left.plot(places, means, dashes, color=colour, marker=marker, markersize=4, label=pattern)
    bound = bounded[bounded["pattern"] == "Bernoulli"].groupby("K")["bound"].mean()
    left.plot(bound.index, bound, color="grey", linewidth=2.5, alpha=0.6, label="Theorem 3, constant 1")
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xticks(places, [f"{k:g}" if math.isfinite(k) else "∞" for k in means.index])
    left.minorticks_off()
    left.set_xlabel("cutoff K")
    left.set_ylabel(f"weight error, T = {max(scale.horizons)}")
    for pattern, (history, rates) in histories(dataset, root, scale, scale.seeds[0]).items():
        online = ParticipationWeights(rates.size, 50)
        for participated in history:
            online.update(participated)
        colour, _, marker = PATTERN_STYLES[pattern]
        right.plot(rates, rates * online.weights, marker, color=colour, markersize=3, fillstyle="none", alpha=0.6)
    grid = np.geomspace(0.01, 1, 100)
    right.plot(grid, grid * expected_weight(grid, 50), color="grey", label="limit under Bernoulli")
    right.set_xscale("log")
    right.set_xlabel("participation rate p")
    right.set_ylabel(f"p ω after {max(scale.horizons)} rounds, K = 50")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    return figure


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
