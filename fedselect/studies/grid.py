"""A study's runs: a grid of experiments that train, or rounds without training."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedselect.experiments.batch import run_all
from fedselect.experiments.building import build_selector
from fedselect.experiments.config import Choice, Experiment
from fedselect.progress import progress_bar
from fedselect.rounds.scenario import Scenario, World
from fedselect.rounds.simulation import SimulatedRound, play

__all__ = ["run_grid", "without_training"]

K = TypeVar("K", bound=Hashable)


def run_grid(experiments: Mapping[K, Experiment], out: Path, jobs: int, what: str = "rounds") -> dict[K, Path]:
    """Run experiments by label, with a progress bar and without pictures; finished ones are not repeated.

    Parameters
    ----------
    experiments : mapping of hashable to Experiment
        What to run, in this order. Put seeds outside: a study cut short then has everything under the seeds it reached.
    out : pathlib.Path
        Directory below which the run folders are made.
    jobs : int
        Runs side by side.
    what : str
        Stands before the progress bar.

    Returns
    -------
    dict of hashable to pathlib.Path
        The run folder of each label.
    """
    with progress_bar(what, 1) as progress:
        folders = run_all(list(experiments.values()), out, jobs, progress, plots=False)
    return dict(zip(experiments, folders, strict=True))


def without_training(scenario: Scenario, selector: Choice, sizes: ArrayLike | None = None) -> Iterator[SimulatedRound]:
    """Play a scenario's rounds with a registered selector, no model in sight.

    Parameters
    ----------
    scenario : Scenario
        From `fedselect.experiments.build_scenario`.
    selector : Choice
        Who decides; one that needs losses, norms or probes cannot be played this way.
    sizes : (N,) array-like of int, optional
        Samples of each client; the federation's if left out.

    Yields
    ------
    SimulatedRound
        As of `fedselect.rounds.play`.
    """
    built = build_selector(selector, scenario)
    # Without a time limit: what a study says must not depend on how busy the machine is.
    world = World(
        scenario.sizes if sizes is None else np.asarray(sizes), scenario.availability, scenario.dropout, scenario.seed
    )
    return play(built, world, scenario.rounds)
