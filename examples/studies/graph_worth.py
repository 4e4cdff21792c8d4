"""The worth of FedGS's graph: the oracle's, the same under masks, two learned ones, a wrong one, and none.

FedGS trains on a graph that an oracle knows, on images of the clients' label distributions; its paper builds graphs
from model updates and from answers to noise as well (Eqs. 11 and 12), and computes the oracle's by secure products
(Section 3.2), but trains on none of these. Here they select side by side, on scikit-learn's digits under log-normal
availability (β = 0.5): the same clients, availability, batches and initial model for all.

Every seed has a split of its own, which is the unit of replication. ``uniform``, the control, selects without any
graph or counts; it trains in round 0, too, and so has a round more than the others.

A learned graph begins in round 0, in which all available clients train for it alone; so that no other model has a
round more, ``oracle`` has this round too. ``wrong`` is the
oracle's with its clients shuffled, and ``no graph`` is α = 0: least selected first. What the graphs do stands beside
what the ids do: ``oracle, ties at random`` breaks ties among equal selections at random.

Columns: smallest and final test loss, and their distances from the oracle's under the same seed, with half the 95 %
confidence interval of the mean (Student's t), and whether that is within 2 % ("agrees", two one-sided tests), beyond
chance one at a time, or neither, with the p-value adjusted for all such distances (Holm); variance of the counts; F1 of
the edges in the last round, against the oracle's; messages and numbers sent for the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from comparison import baseline_values, by_cell, holm
from fedselect.experiments import Choice, Experiment, build_scenario
from fedselect.randomness import generator
from fedselect.statistics import compare_means
from fedselect.training.settings import TrainingSettings
from graphs import dependency_graph, distances, similarity
from study import Rows, Study, Table, main

SPLITS = {"two labels": "two-label", "Dirichlet": "dirichlet-unequal"}

#: Differences of less than this share of the oracle's loss are of no account.
MARGIN = 0.02

#: Selector options by the graph's name.
GRAPHS = {
    "oracle": {"features": "labels", "warmup": 1},
    "secure": {"features": "secure", "warmup": 1},
    "functional": {"features": "functional"},
    "update": {"features": "update"},
    "wrong": {"features": "labels", "warmup": 1},
    "no graph": {"features": "labels", "warmup": 1, "alpha": 0.0},
    "oracle, ties at random": {"features": "labels", "warmup": 1, "ties": "random"},
}


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    n_clients: int
    size: int
    rounds: int
    seeds: int


QUICK = Scale(n_clients=30, size=5, rounds=60, seeds=10)
PAPER = Scale(n_clients=100, size=10, rounds=300, seeds=20)


def experiments(setup):
    """Plan the runs by (split, graph, seed), seeds outside; the wrong graphs are written below the study's folder."""
    scale = setup.scale
    planned = {}
    for seed in range(scale.seeds):
        for split, partition in SPLITS.items():
            base = Experiment(
                name=split.replace(" ", "-"),
                rounds=scale.rounds,
                seed=seed,
                clients_per_round=scale.size,
                checkpoint_every=50,
                data=Choice(
                    "digits",
                    {"n_clients": scale.n_clients, "partition": partition, "validation_fraction": 0.1, "seed": seed},
                ),
                availability=Choice("lognormal", {"beta": 0.5}),
                training=TrainingSettings(),
            )
            for graph, options in GRAPHS.items():
                # Swap ascent decides here; "exact_vs_heuristic" shows what it misses.
                chosen = {"method": "local-search", "scale": "pairs", **options}
                if graph == "wrong":
                    chosen = {**chosen, "distances_file": str(shuffled(base, setup.out))}
                planned[split, graph, seed] = replace(base, selector=Choice("fedgs", chosen))
            planned[split, "uniform", seed] = replace(base, selector=Choice("uniform"))
    return planned


def shuffled(experiment, out):
    """Write the oracle's distances between other clients than they are of, and return the file."""
    path = out / "graphs" / f"{experiment.name}-s{experiment.seed}.npy"
    if not path.exists():
        labels = build_scenario(experiment).federation.label_distributions
        order = generator(experiment.seed, "noise").permutation(len(labels))
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, distances(dependency_graph(similarity(labels)))[np.ix_(order, order)])
    return path


def measures(run):
    """Measure one run; messages and numbers are 0 where the graph costs none."""
    summary, records = run.summary(), run.records()
    notes = [record["notes"]["graph"] for record in records if "notes" in record]
    clients = int(run.experiment.data.options["n_clients"])
    return (
        {"smallest loss": summary["best_loss"], "final loss": summary["final_loss"]}
        | {"count variance": float(np.var(selected(records, clients), ddof=1))}
        | {"edge F1": next((note["f1"] for note in reversed(notes) if "f1" in note), np.nan)}
        | {key: notes[-1][key] if notes else 0 for key in ("messages", "numbers")}
    )


def selected(records, clients):
    """Count how often each client was selected after the warm-up, shape (N,)."""
    chosen = [client for record in records[1:] for client in record["selected"]]
    return np.bincount(np.array(chosen, dtype=np.int64), minlength=clients)


def summarised(runs):
    """Average over splits by partition and graph; losses' distances from the oracle's are paired."""
    losses = ("smallest loss", "final loss")
    beyond = runs.assign(
        **{loss: runs[loss] - baseline_values(runs, "graph", "oracle", ["split", "seed"], loss) for loss in losses}
    )

    def measure(group):
        row, is_oracle = {}, (group["graph"] == "oracle").all()
        for loss in losses:
            apart = beyond.loc[group.index, loss]
            found = compare_means(apart, margin=MARGIN * float((group[loss] - apart).mean()))
            row |= {loss: group[loss].mean(), f"{loss} - oracle's": found.difference, "± " + loss: found.half}
            row[f"{loss} is"], row[f"p {loss}"] = ("", np.nan) if is_oracle else (found.verdict, found.p)
        row |= {key: group[key].mean() for key in ("count variance", "edge F1")}
        row |= {key: int(group[key].max()) for key in ("messages", "numbers")}
        return row | {"seeds": len(group)}

    table = by_cell(runs, ["split", "graph"], measure)
    tests = [f"p {loss}" for loss in losses]
    table[tests] = holm(table[tests].to_numpy().ravel()).reshape(-1, len(losses))
    return table.rename(columns={test: f"adjusted {test}" for test in tests})


def results(setup):
    """Run every graph, and yield the two tables."""
    runs = setup.runs("runs", ("split", "graph", "seed"), experiments(setup), measures)
    yield Table(summarised(runs), "What the graph is worth", "graph_worth")
    yield Table(runs, file="runs")
    yield Rows(runs, "runs")


STUDY = Study(__doc__, QUICK, PAPER, results)


if __name__ == "__main__":
    main(STUDY)
