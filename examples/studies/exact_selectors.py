"""Does exact coverage or balance change what is learnt? DivFL and Fed-CBS as published, exact, and uniform selection.

DivFL selects greedily and Fed-CBS by sampling; both problems can be solved exactly instead (`solvers.coverage`,
`solvers.balance`). Splits of the data are the unit of replication, paired differences, stars and "=" (within the margin
of 2 %) are those of `exact_vs_heuristic`. The gap of DivFL is that of its greedy selection to the exact method's bound
in the same round; in its place stands the mean imbalance QCID of Fed-CBS, in per cent.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import exact_vs_heuristic
from exact_vs_heuristic import Regime, Scale
from fedselect.experiments import Choice, Experiment
from study import Study, main

#: Seconds for each decision: half of them for a bound beside a heuristic's.
_TIME_LIMIT = 1.0


def federation(partition, **options):
    """Build the federation of a regime: digits among 60 clients, log-normal availability, 6 a round."""
    data = Choice("digits", {"n_clients": 60, "partition": partition, **options})
    return Experiment(rounds=50, data=data, availability=Choice("lognormal"), clients_per_round=6)


def regimes(title, setting):
    """Build the regimes of both selectors in a federation."""
    uniform = Choice("uniform")
    greedy = Choice("divfl", {"method": "greedy", "bound_by": "auto"})
    divfl = Regime("DivFL", title, setting, Choice("divfl", {"method": "auto"}), {"greedy": greedy, "uniform": uniform})
    balanced = {name: Choice("fed-cbs", {"method": name}) for name in ("auto", "fed-cbs", "greedy")}
    exact = balanced.pop("auto")
    return divfl, Regime("Fed-CBS", title, setting, exact, {**balanced, "uniform": uniform})


LABELS = regimes("two labels", federation("two-label"))
DIRICHLET = regimes("Dirichlet(0.3)", federation("dirichlet-prior", concentration=0.3))

QUICK = Scale(rounds=None, splits=20, seeds=1, regimes=(*DIRICHLET, LABELS[0]))  # DivFL in a second federation
PAPER = Scale(rounds=100, splits=20, seeds=1, regimes=DIRICHLET + LABELS)


def plans(setup):
    """Plan all runs, with this study's seconds for a decision."""
    return {key: replace(run, time_limit=_TIME_LIMIT) for key, run in exact_vs_heuristic.planned(setup).items()}


def measures(run):
    """Measure one run; of Fed-CBS the mean imbalance in place of the gap."""
    found = exact_vs_heuristic.measures(run)
    if run.experiment.selector.name == "fed-cbs":
        found["gap"] = np.mean([record["solution"]["objective"] for record in run.records() if record["solution"]])
    return found


def results(setup):
    """Yield the tables of `exact_vs_heuristic`."""
    yield from exact_vs_heuristic.results(setup, plans, measures)


STUDY = Study(__doc__, QUICK, PAPER, results)


if __name__ == "__main__":
    main(STUDY)
