"""Does exact selection matter? Every heuristic's gap to the certified optimum, and what the gap did to the federation.

FedGS, CA-Fed, FedSS and E3CS each solve an optimisation problem every round. Here whole federations are run once with
the exact method, once with each heuristic, and once with each control, a random or a plain scheme
of the same paper, or the objective without its distances. A control says how large a difference could be, and whether
optimising helps at all. Beside every decision of a heuristic stands the exact method's bound for the same round, so
that the gap is known; of E3CS's one pass it is the share of the draws that it does not allot.

The unit of replication is a split of the data, with its own availability, batches and initial model; seeds within a
split are averaged first. What is compared meets the same of all four. Intervals are Student's t at 95 % over splits,
one at a time. Stars take into account how many comparisons there are: of the starred differences of heuristics (and of
those of controls, apart), at most 5 % are expected to be none (Benjamini and Hochberg). That there is *no* difference
is a claim, too: "=" marks what lies within the margin of 2 % of the exact runs' mean (two one-sided tests at 5 %). What
has neither mark is not known. Exact and heuristic decisions may be different optima of equal value: then runs differ
without any gap.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import false_discovery_control

import random_exclusions  # noqa: F401  (registers the selector)
from fedselect.experiments import Choice, Experiment
from fedselect.statistics import compare_means
from fedselect.training.settings import TrainingSettings
from study import Picture, Rows, Study, Table, main

# -- setting -----------------------------------------------------------------------------------------------------------

#: CA-Fed's control: as many clients left out, drawn at random.
AS_MANY = "as many at random"

#: Random or plain schemes of the same paper, or the objective without its distances.
CONTROLS = ("random", "uniform", "Unbiased", "counts alone", AS_MANY)

#: Differences of less than this share of the exact runs' mean are of no account.
MARGIN = 0.02


@dataclass(frozen=True)
class Regime:
    """A federation, the exact way to select in it, and others."""

    paper: str
    title: str
    setting: Experiment
    exact: Choice
    others: dict[str, Choice]


#: Seconds for each decision.
_TIME_LIMIT = 2.0


def regime(paper, title, setting, selector, heuristics, controls):
    """Build a regime: a paper's selector with the exact method and each heuristic (by label), gaps certified."""

    def by(method, **more):
        return Choice(selector.name, {**selector.options, "method": method, **more})

    bound_by = {} if selector.name == "e3cs" else {"bound_by": "auto"}
    others = {label: by(method, **bound_by) for label, method in heuristics.items()}
    return Regime(paper, title, setting, by("auto"), others | controls)


def fedgs(title, *, alpha=1.0, scale="pairs", others=(), **changes):
    """Build a regime of FedGS; by default 10 of 100 clients of digits, Dirichlet(0.5), log-normal availability.

    All heuristics and controls stand beside the exact method unless ``others`` names some.
    """
    data = Choice("digits", {"partition": "dirichlet-prior", "concentration": 0.5})
    setting = replace(Experiment(rounds=100, data=data, availability=Choice("lognormal")), **changes)
    controls = {
        "counts alone": Choice("fedgs", {"alpha": 0.0}),
        "random": Choice("fedgs", {"alpha": alpha, "scale": scale, "method": "random", "bound_by": "auto"}),
        "uniform": Choice("uniform"),
    }
    heuristics = {"local-search": "local-search", "greedy": "greedy"}
    selector = Choice("fedgs", {"alpha": alpha, "scale": scale, "time_limit": _TIME_LIMIT})  # for each, not a budget
    built = regime("FedGS", title, setting, selector, heuristics, controls)
    return replace(built, others={name: built.others[name] for name in others or built.others})


def ca_fed(title, bias_weight, data, training, step="published"):
    """Build a regime of CA-Fed: Algorithm 1's greedy against the exact exclusion; no exclusion is "Unbiased".

    As published, excluding clients also shortens the server's step; with ``step="full"`` it does not.
    """
    setting = Experiment(rounds=150, data=data, availability=Choice("ca-fed"), training=training)
    selector = Choice("ca-fed", {"bias_weight": bias_weight, "step": step})
    controls = {"Unbiased": Choice("unbiased"), AS_MANY: Choice("ca-fed-random", selector.options)}
    return regime("CA-Fed", title, setting, selector, {"Algorithm 1": "ca-fed"}, controls)


def fedss(title, size):
    """Build a regime of FedSS-O on ten groups that come and go; proportional allocation is FedSS-P."""
    setting = Experiment(
        rounds=150,
        data=Choice("digits", {"partition": "sorted-blocks", "ratio": 0.8}),
        availability=Choice("group-trace"),
        clients_per_round=size,
    )
    heuristics = {"largest-remainder": "largest-remainder", "proportional": "proportional"}
    return regime("FedSS", title, setting, Choice("fedss", {"largest": 10}), heuristics, {"uniform": Choice("uniform")})


def e3cs(title, quota):
    """Build a regime of E3CS: 20 of 100 clients that return with probability 0.1 to 0.9, drawn as the paper draws."""
    setting = Experiment(
        rounds=300,
        data=Choice("digits", {"partition": "primary-label", "samples": 50}),
        dropout=Choice("success-classes", {"shuffle": True}),
        clients_per_round=20,
    )
    selector = Choice("e3cs", {"quota": quota, "draw": "successive"})
    controls = {"uniform": Choice("uniform", {"aggregation": "deadline"})}
    return regime("E3CS", title, setting, selector, {"one-pass": "one-pass"}, controls)


CLUSTERED = Choice("clustered"), TrainingSettings(learning_rate=0.03, local_epochs=2, batch_size=32)
UNEQUAL = Choice("digits", {"n_clients": 50, "partition": "dirichlet-unequal"}), TrainingSettings()


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    rounds: int | None  #: each regime's where None
    splits: int  #: of the data, the unit of replication
    seeds: int  #: within a split
    regimes: tuple[Regime, ...]


#: Few rounds of the regimes in which the exact method learns worse than a control, and what α has to do with it.
QUICK = Scale(
    rounds=60,
    splits=20,
    seeds=1,
    regimes=(
        fedgs("3 a round", clients_per_round=3, others=("greedy", "counts alone", "uniform")),
        fedgs("3 a round, α = 0.1", alpha=0.1, clients_per_round=3, others=("counts alone", "uniform")),
        ca_fed("unequal clients", 1.0, *UNEQUAL),
        ca_fed("unequal clients, full steps", 1.0, *UNEQUAL, "full"),
    ),
)

#: Where a gap might matter: much or little weight on the distances, few clients, a problem that is hard to prove, ...
PAPER = Scale(
    rounds=None,
    splits=20,
    seeds=1,
    regimes=(
        fedgs("α = 1"),
        fedgs("α = 5", alpha=5.0),
        fedgs("α = 1, the paper's scale", scale="paper"),
        fedgs("3 a round", clients_per_round=3),
        fedgs("3 a round, α = 0.1", alpha=0.1, clients_per_round=3),
        fedgs("two labels, α = 5", alpha=5.0, data=Choice("digits", {"partition": "two-label"})),
        fedgs(
            "everybody there, α = 5",
            alpha=5.0,
            data=Choice("synthetic"),
            availability=Choice("ideal"),
            clients_per_round=6,
        ),
        ca_fed("equal clients", 1.0, *CLUSTERED),
        ca_fed("unequal clients", 1.0, *UNEQUAL),
        ca_fed("unequal, Γ' / 10", 0.1, *UNEQUAL),
        ca_fed("equal clients, full steps", 1.0, *CLUSTERED, "full"),
        ca_fed("unequal clients, full steps", 1.0, *UNEQUAL, "full"),
        ca_fed("unequal, Γ' / 10, full steps", 0.1, *UNEQUAL, "full"),
        fedss("11 for 10 groups", 11),
        fedss("20 for 10 groups", 20),
        e3cs("quota 0", 0.0),
        e3cs("quota 0.2", 0.2),
    ),
)

#: CA-Fed's exact exclusions beside as many at random and none, in full length.
EXCLUSIONS = Scale(
    rounds=None,
    splits=20,
    seeds=1,
    regimes=(
        ca_fed("unequal clients", 1.0, *UNEQUAL),
        ca_fed("unequal clients, full steps", 1.0, *UNEQUAL, "full"),
    ),
)

#: FedGS's heuristics and the counts alone beside exact selection, in full length.
FEDGS = Scale(
    rounds=None,
    splits=20,
    seeds=1,
    regimes=tuple(
        replace(each, others={name: each.others[name] for name in ("local-search", "greedy", "counts alone")})
        for each in PAPER.regimes
        if each.paper == "FedGS"
    ),
)

#: The regimes that are in neither of these, without CA-Fed's random exclusions.
REST = Scale(
    rounds=None,
    splits=20,
    seeds=1,
    regimes=tuple(
        replace(each, others={name: choice for name, choice in each.others.items() if name != AS_MANY})
        for each in PAPER.regimes
        if each.paper != "FedGS" and each.title not in {given.title for given in EXCLUSIONS.regimes}
    ),
)

#: What is compared, by its name in a run's summary: heading and decimals. The late loss, of the last fifth of the
#: rounds, is less noisy than the last round's.
OUTCOMES = {
    "count_variance": ("variance of counts", 1),
    "jain_index": ("Jain", 4),
    "longest_absence": ("longest absence", 1),
    "final_loss": ("test loss", 4),
    "late_loss": ("late loss", 4),
    "final_accuracy": ("accuracy", 4),
}


# -- what is run -------------------------------------------------------------------------------------------------------


LABELS = ("paper", "regime", "method", "split", "seed")


def planned(setup):
    """Plan all runs by paper, regime, method, split and seed."""
    scale = setup.scale
    # Splits outside, so that a study cut short has all methods on the splits it reached.
    return {
        (regime.paper, regime.title, method, split, seed): replace(
            regime.setting,
            name=regime.paper,  # a run that two regimes share is played once
            rounds=scale.rounds or regime.setting.rounds,
            seed=scale.seeds * split + seed,
            data=Choice(regime.setting.data.name, {**regime.setting.data.options, "seed": split}),
            checkpoint_every=25,
            time_limit=_TIME_LIMIT,
            selector=selector,
        )
        for split in range(scale.splits)
        for seed in range(scale.seeds)
        for regime in scale.regimes
        for method, selector in {"exact": regime.exact, **regime.others}.items()
    }


def measures(run):
    """Measure one run: gap, share of proved decisions, milliseconds, and the outcomes."""
    summary = run.summary()
    seconds = summary["median_solve_seconds"]
    found = decisions(run.records(), run.experiment.clients_per_round)
    found["ms"] = np.nan if seconds is None else 1e3 * seconds
    losses = run.curve("loss")
    summary["late_loss"] = losses.tail(max(1, losses.size // 5)).mean()
    return found | {outcome: summary[outcome] for outcome in OUTCOMES}


def decisions(records, size):
    """Compute a run's gap (sum of its rounds' gaps over that of the bounds) and the share of proved decisions.

    The gap of E3CS's one pass, which is no feasible decision, is the share of the k draws that it does not allot.
    """
    solutions = [record["solution"] for record in records if record["solution"] is not None]
    if not solutions:
        return {"gap": np.nan, "proved": np.nan}
    if any("shortfall" in each["details"] for each in solutions):
        gap = sum(each["details"]["shortfall"] for each in solutions) / (size * len(solutions))
    elif any(each["bound"] is None for each in solutions):
        gap = np.nan
    else:
        bounds = sum(abs(each["bound"]) for each in solutions)
        gap = sum(abs(each["bound"] - each["objective"]) for each in solutions) / bounds if bounds else 0.0
    return {"gap": gap, "proved": float(np.mean([each["status"] == "optimal" for each in solutions]))}


# -- tables ----------------------------------------------------------------------------------------------------------


def compare(runs):
    """Compute paired differences to the exact runs over splits: mean, interval, p-values, and what may be said."""
    rows = []
    for (paper, regime), group in runs.groupby(["paper", "regime"], sort=False):
        columns = ["gap", *OUTCOMES]
        by_method = {name: each.groupby("split")[columns].mean() for name, each in group.groupby("method", sort=False)}
        exact = by_method.pop("exact")
        for method, other in by_method.items():
            for outcome in OUTCOMES:
                mean = float(exact[outcome].mean())
                found = compare_means(other[outcome] - exact[outcome], margin=MARGIN * abs(mean) or 1e-12)
                rows.append(
                    {"paper": paper, "regime": regime, "method": method, "outcome": outcome}
                    | {"exact": mean, "gap": other.gap.mean(), "difference": found.difference, "half": found.half}
                    | {"p": found.p, "p_equivalent": found.p_equivalent, "splits": found.n}
                )
    effects = pd.DataFrame(rows)
    effects["adjusted"] = np.nan
    light, tested = effects.method.isin(CONTROLS), effects.p.notna()
    for part in (light & tested, ~light & tested):  # the clear effects of one say nothing of the other's
        if part.any():
            effects.loc[part, "adjusted"] = false_discovery_control(effects.p[part])
    return effects


def printed(runs, effects):
    """Lay out one row per method: its gap and its differences; the exact row has the values themselves."""
    cells = {(row.paper, row.regime, row.method, row.outcome): row for row in effects.itertuples()}
    rows = []
    for key, group in runs.groupby(["paper", "regime", "method"], sort=False):
        row = dict(zip(("paper", "regime", "decided by"), key, strict=True))
        row |= {"gap %": 100 * group.gap.mean(), "proved %": 100 * group.proved.mean(), "ms": group.ms.median()}
        for outcome, (heading, digits) in OUTCOMES.items():
            found = cells.get((*key, outcome))
            if found is None:
                row[heading] = f"{group[outcome].mean():.{digits}f}"
            elif found.difference == found.half == 0.0:
                row[heading] = "same"
            else:
                mark = "*" if found.adjusted < 0.05 else ""
                mark += " =" if found.p_equivalent < 0.05 else ""
                row[heading] = f"{found.difference:+.{digits}f} ± {found.half:.{digits}f}{mark}"
        rows.append(row)
    return pd.DataFrame(rows)


def verdict(effects):
    """Put the answer in words."""
    fairness, learning = list(OUTCOMES)[:3], list(OUTCOMES)[3:]
    for paper, group in effects.groupby("paper", sort=False):
        for kind in ("heuristics", "controls"):
            part = group[group.method.isin(CONTROLS) == (kind == "controls")]
            found = []
            for what, names in (("fairness", fairness), ("learning", learning)):
                cells = part[part.outcome.isin(names)]
                starred, equal = cells[cells.adjusted < 0.05], int((cells.p_equivalent < 0.05).sum())
                where = "; ".join(dict.fromkeys(f"{row.method} at {row.regime}" for row in starred.itertuples()))
                found.append(
                    f"{len(starred)} of {len(cells)} in {what} differ"
                    + (f" ({where})" if where else "")
                    + f", {equal} are within {100 * MARGIN:g} %"
                )
            gap = "" if part.gap.isna().all() else f" (mean gap up to {100 * part.gap.max():.2g} %)"
            yield f"{paper}, {kind}{gap}: {'; '.join(found)}"


# -- figures ---------------------------------------------------------------------------------------------------------


def effects_figure(effects):
    """Draw effects on counts and test loss against the gap, with 95 % intervals; full marks: starred in the table."""
    least, unknown = 0.003, 300.0  # where gaps of nothing, and those that are not known, are drawn
    papers = list(effects.paper.unique())
    figure = Figure(figsize=(2.5 * len(papers) + 0.8, 4.6), layout="constrained")
    axes = figure.subplots(2, len(papers), squeeze=False)
    markers = dict(zip(effects.method.unique(), itertools.cycle("osD^vPXx*<>"), strict=False))
    for column, paper in enumerate(papers):
        for axis, outcome in zip(axes[:, column], ("count_variance", "final_loss"), strict=True):
            for row in effects[(effects.paper == paper) & (effects.outcome == outcome)].itertuples():
                share = 100 / abs(row.exact)
                axis.errorbar(
                    unknown if np.isnan(row.gap) else max(100 * row.gap, least),
                    share * row.difference,
                    share * row.half,
                    fmt=markers[row.method],
                    color="0.6" if row.method in CONTROLS else "black",
                    fillstyle="full" if row.adjusted < 0.05 else "none",
                    markersize=5,
                    linewidth=0.8,
                )
            axis.axhline(0.0, color="black", linewidth=0.6)
            axis.set(xscale="log", xlim=(0.6 * least, 1.6 * unknown))
            axis.tick_params(labelsize=8)
            axis.grid(alpha=0.3)
        axes[0, column].set_yscale("symlog", linthresh=10)
        axes[0, column].set(title=paper)
        axes[1, column].set(xlabel="gap (%; none: left edge)")
    axes[0, 0].set(ylabel="variance of counts,\n% of exact's")
    axes[1, 0].set(ylabel="test loss,\n% of exact's")
    for method, marker in markers.items():
        axes[0, 0].plot([], [], marker, color="0.6" if method in CONTROLS else "black", fillstyle="none", label=method)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def results(setup, plan=None, measured=None):
    """Run every federation, and yield what gaps did: tables, sentences, figure."""
    runs = setup.runs("runs", LABELS, (plan or planned)(setup), measured or measures)
    effects = compare(runs)
    yield Table(runs, file="runs")
    yield Rows(runs, "runs")
    yield Table(effects, file="results")
    title = f"The gap and what it did: differences to exact, paired over {setup.scale.splits} splits of the data"
    yield Table(printed(runs, effects), title, "table", number="%.4g")
    yield from verdict(effects)
    yield Picture(effects_figure(effects), "exact_vs_heuristic", 80)


STUDY = Study(__doc__, QUICK, PAPER, results, plans={"exclusions": EXCLUSIONS, "fedgs": FEDGS, "rest": REST})


if __name__ == "__main__":
    main(STUDY)
