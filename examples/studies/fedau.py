"""FedAU's comparison under unknown participation, and its weights against Theorem 3 (Wang & Ji, ICLR 2024).

250 clients whose data and participation rates depend on the same label mixes, 5 local steps on batches of 16, under
three patterns of participation. The paper's numbers are known for image data alone (its poster's table, which leaves
out FedVARP and MIFA). On other data only orders and signs compare, and that is what is printed: how far FedAU leads
every other method, and how alike the orders of the methods are.

Learning rates: without ``--paper`` they are those of the authors' README (for CIFAR-10). ``--paper`` tunes a pair for
each method: of a grid of half decades, the best three after 250 rounds go on to the full length, and the lowest
objective on average over the three patterns wins, each pattern under a seed of its own that is reported nowhere else.
A method's grid is widened where its best lies on an edge, at most `WIDENINGS` times. A pair serves all patterns,
since the pattern is unknown, and a lead under one pattern cannot come from rates tuned to it. Data, rates of
participation, model and batches all depend on the seed, as in the authors' code. Weights and server rate are
confounded, so FedAU (K = 50) also meets known participation at equal rates. With images, models are initialised and
batches augmented as in the code, but for the colours of CIFAR-100.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import spearmanr

import stored_updates  # noqa: F401  (registers FedVARP and MIFA)
from comparison import beside_paper, holm, published_table
from fedselect.availability import AVAILABILITY
from fedselect.experiments import Choice, Experiment
from fedselect.experiments.figures import panels_figure
from fedselect.statistics import compare_means
from fedselect.training.settings import TrainingSettings
from solvers import solve
from solvers.participation import CutoffProblem, ParticipationWeights, expected_weight, weight_error
from study import Picture, Rows, Study, Table, curves, main

# -- setting -----------------------------------------------------------------------------------------------------------

#: Image data, in the order of the columns of the poster's table.
IMAGES = ("svhn", "cifar10", "cifar100", "cinic10")

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

#: Of the authors' code, which changes the colours of CIFAR-100, too.
AUGMENTATION = {"svhn": "crop", "cifar10": "crop-flip", "cifar100": "crop-flip", "cinic10": "crop-flip"}


@dataclass(frozen=True)
class Scale:
    """Amount that is run; without learning rates to try, the README's are taken."""

    n_clients: int
    rounds: int
    seeds: tuple[int, ...]
    horizons: tuple[int, ...]
    equal: tuple[float, ...]  # server rates at which FedAU (K = 50) and known participation meet
    local: tuple[float, ...] = ()
    server: tuple[float, ...] = ()
    screening: tuple[int, int] | None = None  # rounds, and how many pairs of rates go on to the full length


# 2 000 rounds are the code's default; the README has 10 000 for CIFAR-10. Five seeds are the paper's.
PAPER = Scale(
    n_clients=250,
    rounds=2000,
    seeds=(1, 2, 3, 4, 5),
    horizons=(500, 2000, 10000),
    equal=(10**0.5, 10.0),
    local=(0.01, 10**-1.5, 0.1, 10**-0.5),
    server=(1.0, 10**0.5, 10.0, 10**1.5),
    screening=(250, 3),
)
QUICK = Scale(n_clients=250, rounds=300, seeds=(1, 2), horizons=(500, 2000), equal=(1.0,))

#: How often a method's grid of rates may grow by half a decade where its best lies on an edge.
WIDENINGS = 4

#: Under each pattern rates are tuned with a seed of its own.
TUNING_SEEDS = {"Bernoulli": 1000, "Markov": 1001, "cyclic": 1002}


def experiment(pattern, method, dataset, root, scale, seed):
    """Plan one run, at the README's learning rates."""
    selector, rule, local, server = METHODS[method]
    data = {"n_clients": scale.n_clients, "seed": seed}
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


#: Test accuracy in per cent on SVHN, CIFAR-10, CIFAR-100 and CINIC-10, from the poster.
PUBLISHED = published_table("fedau", "test accuracy, %")

#: Training accuracy in the same order; FedVARP and MIFA are not in the poster.
PUBLISHED_TRAINING = published_table("fedau", "training accuracy, %")

# -- weights, without training -----------------------------------------------------------------------------------------

CUTOFFS = (1, 2, 5, 10, 20, 50, 100, 200, None)

PATTERN_STYLES = {"Bernoulli": ("#0072B2", "-", "o"), "Markov": ("#D55E00", "--", "s"), "cyclic": ("#009E73", ":", "^")}


def histories(dataset, root, scale, seed):
    """Draw which clients participate in each round, (T, N), and the rates p, (N,), under each pattern."""
    federation = experiment("Bernoulli", "MIFA", dataset, root, scale, seed).federation()
    found = {}
    for pattern, name in PATTERNS.items():
        availability = AVAILABILITY.build(name, federation, seed)
        rounds = [availability.available(t) for t in range(max(scale.horizons))]
        found[pattern] = np.array(rounds), availability.rates(0)
    return found


def weight_errors_of(seed, dataset, root, scale):
    """Compute the weight error under one seed."""
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


def error_table(errors):
    """Average weight errors over seeds: a row for each T and K, a column for each pattern, beside the bound."""
    table = errors.pivot_table(index=["T", "K"], columns="pattern", values="error")[list(PATTERNS)]
    table["Theorem 3"] = errors[errors["pattern"] == "Bernoulli"].groupby(["T", "K"])["bound"].mean()
    table["Bernoulli / Theorem 3"] = table["Bernoulli"] / table["Theorem 3"]
    return table.reset_index()


def weights_figure(errors, setup):
    """Draw the weight error against the cutoff, and what the weights of K = 50 become for clients of each rate."""
    scale, figure = setup.scale, Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    last = errors[errors["T"] == max(scale.horizons)]
    bounded = last[np.isfinite(last["K"])]
    for pattern, (colour, dashes, marker) in PATTERN_STYLES.items():
        means = last[last["pattern"] == pattern].groupby("K")["error"].mean()
        places = [min(k, 2.5 * bounded["K"].max()) for k in means.index]
        left.plot(places, means, dashes, color=colour, marker=marker, markersize=4, label=pattern)
    bound = bounded[bounded["pattern"] == "Bernoulli"].groupby("K")["bound"].mean()
    left.plot(bound.index, bound, color="grey", linewidth=2.5, alpha=0.6, label="Theorem 3, constant 1")
    left.set(xscale="log", yscale="log")
    left.set_xticks(places, [f"{k:g}" if math.isfinite(k) else "∞" for k in means.index])
    left.minorticks_off()
    left.set(xlabel="cutoff K", ylabel=f"weight error, T = {max(scale.horizons)}")
    for pattern, (history, rates) in histories(setup.dataset, setup.root, scale, scale.seeds[0]).items():
        online = ParticipationWeights(rates.size, 50)
        for participated in history:
            online.update(participated)
        colour, _, marker = PATTERN_STYLES[pattern]
        right.plot(rates, rates * online.weights, marker, color=colour, markersize=3, fillstyle="none", alpha=0.6)
    grid = np.geomspace(0.01, 1, 100)
    right.plot(grid, grid * expected_weight(grid, 50), color="grey", label="limit under Bernoulli")
    right.set(xscale="log", xlabel="participation rate p", ylabel=f"p ω after {max(scale.horizons)} rounds, K = 50")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend()
    return figure


# -- what is run -------------------------------------------------------------------------------------------------------

#: Methods that meet at equal rates; weights alone tell them apart.
RIVALS = ("FedAU, K = 50", "known participation")


def to_tune(setup):
    """Plan the tuning of each method over all patterns, where there are rates to try."""
    return {
        method: [
            replace(experiment(p, method, setup.dataset, setup.root, setup.scale, seed), name="tuning")
            for p, seed in TUNING_SEEDS.items()
        ]
        for method in (METHODS if setup.scale.local else ())
    }


def grid(setup, tuned):
    """Plan every method at its own rates, and the rivals at FedAU's local rate and equal server rates."""

    def rates(method):
        each = experiment("Bernoulli", method, setup.dataset, setup.root, setup.scale, 0)
        return tuned.get(method, each.training)

    settings = {("own", method): rates(method) for method in METHODS}
    local = settings["own", RIVALS[0]].learning_rate
    for server in setup.scale.equal:
        for method in RIVALS:
            own = settings["own", method]
            settings[server, method] = replace(own, learning_rate=local, server_learning_rate=server)
    return {
        (at, pattern, method, seed): replace(
            experiment(pattern, method, setup.dataset, setup.root, setup.scale, seed), training=training
        )
        for seed in setup.scale.seeds
        for pattern in PATTERNS
        for (at, method), training in settings.items()
    }


def trials(tried):
    """Lay out one row per setting that was tried, with the objective under each pattern's tuning seed."""
    return pd.DataFrame(
        {"method": trial.label, "rounds": trial.rounds}
        | {"local rate": trial.settings["learning_rate"], "server rate": trial.settings["server_learning_rate"]}
        | {"objective": trial.value, **dict(zip(TUNING_SEEDS, trial.values, strict=True))}
        for trial in tried
    )


def edges(tuned, tried):
    """Say which methods' best rates lie on the edge of what was tried: no claim of theirs is one at best rates."""
    at = []
    for method, own in tried.groupby("method", sort=False):
        best = tuned[str(method)]
        found = {"local rate": best.learning_rate, "server rate": best.server_learning_rate}
        at += [str(method)] if any(rate in (own[name].min(), own[name].max()) for name, rate in found.items()) else []
    return "on the edge of the grid of rates: " + (", ".join(at) or "none")


def measures(run):
    """Measure one run, accuracies in per cent; the accuracy is over the last tenth of the rounds."""
    summary, training, curve = run.summary(), run.experiment.training, run.curve()
    clients = pd.read_csv(run.folder / "clients.csv")
    return (
        {"local rate": training.learning_rate, "server rate": training.server_learning_rate}
        | {"accuracy": 100 * curve.tail(math.ceil(len(curve) / 10)).mean()}
        | {"training accuracy": 100 * float(np.average(clients["accuracy"], weights=clients["samples"]))}
        | {"objective": summary["client_loss_mean"], "worst client's loss": summary["client_loss_worst"]}
        | {"importance distance": summary["importance_distance"]}
    )


# -- tables ------------------------------------------------------------------------------------------------------------


def of_dataset(table, dataset):
    """Select the poster's numbers of a data set by (pattern, method); empty where it has none."""
    if dataset not in IMAGES:
        return {}
    column = IMAGES.index(dataset)
    return {(pattern, name): row[column] for pattern, methods in table.items() for name, row in methods.items()}


def leads(runs):
    """Compute FedAU's (K = 50) lead over each method in test accuracy, with a 95 % interval, beside the paper's.

    A lead that is not beyond chance is "within a point" where two one-sided tests say so, "too few" below three seeds,
    and else "open".
    """
    otherwise = {"agrees": "within a point", "too few": "too few"}
    wide = runs.pivot(index=["pattern", "seed"], columns="method", values="accuracy")
    rows = []
    for pattern, methods in PUBLISHED.items():
        for method in METHODS:
            if method == "FedAU, K = 50" or method not in wide:
                continue
            found = compare_means((wide["FedAU, K = 50"] - wide[method]).loc[pattern], margin=1.0)
            theirs = np.subtract(methods["FedAU, K = 50"], methods[method]) if method in methods else np.array([])
            rows.append(
                {"pattern": pattern, "method": method, "lead": found.difference, "+-": found.half, "seeds": found.n}
                | {"paper's leads": f"{theirs.min():.1f} to {theirs.max():.1f}" if theirs.size else "-"}
                | {"p": found.p, "theirs": theirs, "otherwise": otherwise.get(found.verdict, "open")}
            )
    table = pd.DataFrame(rows)
    table["adjusted"] = holm(table["p"])
    # A lead that many others stand beside is clear after Holm's adjustment for all of them, or not shown.
    table["verdict"] = [
        _verdict(each.lead - each.half, each.lead + each.half, each.theirs) if each.adjusted < 0.05 else each.otherwise
        for each in table.rename(columns={"+-": "half"}).itertuples()
    ]
    return table.drop(columns=["theirs", "otherwise"])


def _verdict(low, high, theirs):
    """Say what an interval of ours says, and whether it is what the paper's four leads say."""
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


def orders(runs):
    """Compute Spearman's rank correlation of our order of the methods with the paper's on each of its data sets."""
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


def accuracy_figure(runs):
    """Draw test accuracy over the rounds under each pattern, mean over seeds."""
    panels = curves(runs, "pattern", "method", lambda run: 100 * run.curve())
    return panels_figure(panels, METHOD_STYLES, "test accuracy, %", size=(9, 3.2))


def results(setup):
    """Yield the tables and figures."""
    dataset, scale = setup.dataset, setup.scale
    plan = {(seed,): (seed, dataset, setup.root, scale) for seed in scale.seeds}
    errors = pd.concat(setup.parts("weights", weight_errors_of, plan).values(), ignore_index=True)
    yield Rows(errors, "weights-rows")
    tuned, tried = setup.tuned(to_tune(setup), widenings=WIDENINGS)
    tried = trials(tried)
    everything = setup.runs("runs", ("rates", "pattern", "method", "seed"), grid(setup, tuned), measures)
    by_rates = {at: part.drop(columns="rates") for at, part in everything.groupby("rates", sort=False)}
    runs, rivals = by_rates["own"], {server: by_rates[server] for server in scale.equal}

    order = ["pattern", "method"]
    published, of_training = (of_dataset(table, dataset) for table in (PUBLISHED, PUBLISHED_TRAINING))
    why = {(): f"{scale.rounds} rounds, other learning rates"}
    table = beside_paper(runs, published, order, "accuracy", why, margin=1.0, runs=5)
    trained = beside_paper(runs, of_training, order, "training accuracy", why, margin=1.0, runs=5)
    more = ["local rate", "server rate", "objective", "worst client's loss"]
    table = table.merge(runs.groupby(order, sort=False)[more].mean().reset_index(), on=order)
    weights = error_table(errors)
    rates = ["local rate", "server rate"]
    equal_rates = pd.concat([leads(each).assign(**each[rates].iloc[0]) for each in rivals.values()])

    def printed(compared):
        return compared if published else compared.drop(columns=["paper", "verdict", "why"])

    cutoffs = weights["K"].map(lambda k: f"{k:.0f}" if math.isfinite(k) else "∞")
    yield Table(
        weights.assign(K=cutoffs), "Weight error (mean over seeds) and Theorem 3's bound with constant 1", digits=4
    )
    best = errors[errors["pattern"] == "Bernoulli"].groupby("T")[["corollary 4", "bound's best"]].mean().reset_index()
    best["measured best"] = [weights["K"][part["Bernoulli"].idxmin()] for _, part in weights.groupby("T")]
    yield Table(best, "Best cutoff K (mean over seeds)", digits=1)
    yield Table(printed(table), f"Test accuracy on {dataset} over the last tenth of the rounds, per cent")
    title = "Lead of FedAU (K = 50), percentage points; the paper's on four image data sets"
    yield Table(leads(runs), title, "leads", 2)
    yield Table(equal_rates, "The same at equal rates, where weights alone tell the two apart", "leads-equal-rates", 2)
    if not tried.empty:
        yield Table(tried, "Learning rates tried: the objective, mean and under each pattern's tuning seed", "tuning")
        yield edges(tuned, tried)
    yield Table(printed(trained), f"Training accuracy on {dataset} after the last round, per cent", digits=2)
    yield Table(orders(runs), "Rank correlation of the order of five methods with the paper's", "orders", 2)
    written = {"results": runs, "weights": weights, "accuracy": table, "training-accuracy": trained}
    for file, frame in (written | {"results-equal-rates": pd.concat(list(rivals.values()))}).items():
        yield Table(frame, file=file)
    for name, figure in (("weights", weights_figure(errors, setup)), ("curves", accuracy_figure(runs))):
        yield Picture(figure, name, dpi=150)


STUDY = Study(__doc__, QUICK, PAPER, results, ("digits", "synthetic", *IMAGES))


if __name__ == "__main__":
    main(STUDY)
