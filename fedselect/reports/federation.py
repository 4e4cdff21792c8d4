"""Report of a federation before a run: data of the clients, their 3DG, their availability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedselect.data import Federation
from fedselect.experiments.config import Experiment
from fedselect.experiments.running import build_scenario
from fedselect.measures import total_variation
from fedselect.reports.document import Picture, Report, frame_table, value_table
from fedselect.reports.pictures import MOST_NODES
from fedselect.reports.runs import choice_text, split_of
from fedselect.rounds.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedselect.data import Federation

_NUMBERS = (
    "The federation in a few numbers. Distance of labels: total variation between a client's distribution and that of "
    "all samples. Scarce rounds: fewer clients are expected to be available than are to be selected."
)

#: Clients beyond which a picture shows some of them, or means over neighbours.
_MOST_CLIENTS = 300

#: Rounds looked at, and rates held in memory, at most.
_MOST_ROUNDS, _MOST_RATES = 200, 20_000_000


def federation_report(experiment: Experiment) -> Report:
    """Make the report of the scenario of an experiment, before a run.

    Parameters
    ----------
    experiment : Experiment
        Its data, availability, dropout, rounds, clients a round and seed; the selector does not matter.

    Returns
    -------
    Report

    Raises
    ------
    FedselectError
        When data, availability, dropout or clock cannot be built.
    """
    federation, size = experiment.federation(), experiment.clients_per_round
    tables = experiment.tables(defaults=True)
    scenario = build_scenario(experiment, federation)
    rounds, rates = _rates(scenario, experiment.rounds)
    notes: list[str] = []
    if not hasattr(scenario.availability, "rates"):
        notes.append(f"{experiment.availability.name!r} states no rates: shown is who is there under this seed.")
    pictures = [_data_picture(federation), _availability_picture(rounds, rates, size)]
    if federation.classes is None:
        notes.append("The 3DG is not drawn: it is a graph of label distributions, and these labels are real numbers.")
    elif len(federation) > MOST_NODES:
        notes.append(f"The 3DG is not drawn: a picture of {len(federation)} clients shows nothing.")
    else:
        pictures.insert(1, _graph_picture(federation))
    return Report(
        f"{experiment.name}: the federation",
        f"{len(federation)} clients on {split_of(tables['data'])}, before any run: availability "
        f"{experiment.availability.name}, {experiment.rounds} rounds, {size} clients a round, seed {experiment.seed}.",
        tuple((section, choice_text(tables[section])) for section in ("data", "availability", "dropout")),
        tuple(notes),
        (
            value_table("federation", _NUMBERS, _numbers(federation, rates, size)),
            frame_table(
                "clients",
                "Every client; availability is the mean of its rates over the rounds.",
                federation.summary().reset_index().assign(availability=rates.mean(axis=1)),
            ),
        ),
        tuple(pictures),
    )


def rates_figure(rounds: NDArray[np.int64], rates: NDArray[np.float64], size: int) -> Figure:
    """Draw probabilities to be available, shape (N, rounds looked at), and the expected number of available clients."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 5.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    ordered = rates[np.argsort(-rates.mean(axis=1), kind="stable")]
    starts = np.arange(0, len(ordered), -(-len(ordered) // _MOST_CLIENTS))
    bands = np.add.reduceat(ordered, starts, axis=0) / np.diff([*starts, len(ordered)])[:, None]
    extent = (rounds[0] + 0.5, rounds[-1] + 1.5, len(ordered) + 0.5, 0.5)
    drawn = above.imshow(bands, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0, vmax=1, extent=extent)
    figure.colorbar(drawn, ax=above, label="availability rate")
    above.set_ylabel("clients, most available first")
    expected = rates.sum(axis=0)
    marker = "o" if len(rounds) == 1 else ""
    below.plot(rounds + 1, expected, color="#0072B2", marker=marker, label="clients expected to be available")
    below.axhline(size, color="#D55E00", linestyle="--", label="clients selected a round")
    below.set_ylim(0, 1.05 * max(expected.max(), size))
    below.set_ylabel("clients")
    below.set_xlabel("round")
    below.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _rates(scenario: Scenario, rounds: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return evenly spaced rounds and the rates in them, shape (N, rounds); 0 and 1 where none are stated."""
    most = int(np.clip(_MOST_RATES // scenario.n_clients, 1, _MOST_ROUNDS))
    chosen = np.unique(np.linspace(0, rounds - 1, min(rounds, most)).round().astype(np.int64))
    there = scenario.availability
    # A plugin's model may know which clients are there, and not how likely that was.
    look = there.rates if hasattr(there, "rates") else there.available
    return chosen, np.stack([look(int(t)).astype(np.float64) for t in chosen], axis=1)


def _numbers(federation: Federation, rates: NDArray[np.float64], size: int) -> dict[str, Any]:
    sizes = federation.sizes
    numbers: dict[str, Any] = {
        "number of clients": len(federation),
        "samples": int(sizes.sum()),
        "smallest client": int(sizes.min()),
        "median client": float(np.median(sizes)),
        "largest client": int(sizes.max()),
    }
    if federation.classes is not None:
        whole = federation.label_counts.sum(axis=0) / sizes.sum()
        apart = [total_variation(each, whole) for each in federation.label_distributions]
        numbers["classes"] = int(federation.classes)
        numbers["median labels a client"] = float(np.median(np.count_nonzero(federation.label_counts, axis=1)))
        numbers["mean distance of labels"] = float(np.mean(apart))
    expected = rates.sum(axis=0)
    return numbers | {
        "mean availability rate": float(rates.mean()),
        "clients never available": int((rates.max(axis=1) == 0).sum()),
        "fewest clients expected": float(expected.min()),
        "share of scarce rounds": float((expected < size).mean()),
    }


def _data_picture(federation: Federation) -> Picture:
    """Draw sizes and labels; of many clients, some of every size."""
    caption, shown = "Samples of each client, and how its labels are distributed.", None
    if federation.classes is None:
        caption = "Samples of each client, and its targets."
    if len(federation) > _MOST_CLIENTS:
        ranks = np.linspace(0, len(federation) - 1, _MOST_CLIENTS).round().astype(np.int64)
        shown = np.argsort(-federation.sizes, kind="stable")[ranks]
        caption += f" {len(shown)} of the {len(federation)} clients are shown, evenly spaced by size, largest first."
    what = "targets, mean and deviation" if federation.classes is None else f"{federation.classes} labels, stacked"
    alternative = (
        f"Two bar charts with a bar a client: samples (from {federation.sizes.min()} to {federation.sizes.max()}), "
        f"and {what}."
    )
    return Picture("who-has-what", caption, alternative, federation.plot(shown))


def _graph_picture(federation: Federation) -> Picture:
    from graphs import dependency_graph, draw, similarity

    labels = federation.label_distributions
    return Picture(
        "graph",
        "The 3DG of the clients' label distributions.",
        "Network: a pie of its labels for every client, with edges between similar clients.",
        draw(dependency_graph(similarity(labels)), labels=labels),
    )


def _availability_picture(rounds: NDArray[np.int64], rates: NDArray[np.float64], size: int) -> Picture:
    caption = "Availability rates over time, and how many clients they let expect."
    if len(rates) > _MOST_CLIENTS:
        band = -(-len(rates) // _MOST_CLIENTS)
        caption += (
            f" A row is the mean of up to {band} of the {len(rates)} clients, next to each other in availability."
        )
    if len(rounds) > 1 and (np.diff(rounds) > 1).any():
        caption += f" {len(rounds)} of the {rounds[-1] + 1} rounds are looked at, evenly spaced."
    expected = rates.sum(axis=0)
    alternative = (
        f"Raster of rates from {rates.min():.2g} to {rates.max():.2g}, over a line chart: between {expected.min():.3g} "
        f"and {expected.max():.3g} clients are expected, and {size} selected a round."
    )
    return Picture("who-is-there", caption, alternative, rates_figure(rounds, rates, size))
