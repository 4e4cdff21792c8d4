"""The pictures of runs, with their captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedselect.data import load_data
from fedselect.errors import TOOLKIT_ERRORS, DataError
from fedselect.experiments.figures import counts_figure, curves_figure, gap_figure, known_curves, success_figure
from fedselect.reports.document import Picture
from solvers.reading import without_controls

if TYPE_CHECKING:
    from fedselect.experiments.folder import RecordedRun

__all__ = ["MOST_NODES", "pictures_of"]

_UNDRAWN: tuple[type[Exception], ...] = (*TOOLKIT_ERRORS, MemoryError)

#: Clients beyond which a drawing of their graph shows nothing any more.
MOST_NODES = 200


def pictures_of(runs: Mapping[str, Sequence[RecordedRun]]) -> tuple[tuple[Picture, ...], list[str]]:
    """Draw runs.

    Parameters
    ----------
    runs : mapping of str to sequence of RecordedRun
        The runs of each label, one a seed, each with at least one round.

    Returns
    -------
    pictures : tuple of Picture
        Those there is something to draw for.
    missing : list of str
        A sentence for each one that could not be drawn.
    """
    # Matplotlib would read a pair of dollar signs in a label as a formula.
    runs = {without_controls(label).replace("$", r"\$"): each for label, each in runs.items()}
    records = {label: [run.records for run in each] for label, each in runs.items()}
    tables = {label: [run.table for run in each] for label, each in runs.items()}
    clients = max(run.n_clients for each in runs.values() for run in each)
    over_seeds = " (mean over seeds)" if any(len(each) > 1 for each in runs.values()) else ""
    band = ": mean over seeds, band from lowest to highest" if over_seeds else ""
    measured = " and ".join(known_curves(tables)) or "loss, of which nothing was measured yet"
    pictures = [
        Picture(
            "counts",
            f"How often each client was selected{over_seeds}.",
            "Bar charts, one a selector: a bar for every client, as high as the number of its selections.",
            counts_figure(records, clients),
        ),
        Picture(
            "curves",
            f"Test {measured}{band}.",
            f"Line charts over the rounds of test {measured}, with a line for every selector.",
            curves_figure(tables),
        ),
    ]
    if any(table["gap"].notna().any() for each in tables.values() for table in each):
        pictures.append(
            Picture(
                "gap",
                "Certified gap of each decision, relative to the mean |objective| of its run, against its solve time.",
                "Scatter chart, both axes logarithmic: a point for every decision.",
                gap_figure(tables),
            )
        )
    if any(len(each["returned"]) < len(each["selected"]) for seeds in records.values() for each in seeds[0]):
        pictures.append(
            Picture(
                "success",
                "Share of the selections up to each round whose update arrived.",
                "Line chart over the rounds, with a line for every selector.",
                success_figure(records, clients),
            )
        )
    optimising = [label for label, each in tables.items() if each[0]["gap"].notna().any()]
    label = optimising[0] if optimising else next(iter(runs))
    try:
        graph = _graph_figure(runs[label][0])
    except _UNDRAWN as error:
        return tuple(pictures), [f"The graph of the clients is not drawn: {error}."]
    caption = "The 3DG of the clients' label distributions; marked: the last selection of {}."
    what = "Network: a pie of its labels for every client, with edges between similar clients."
    pictures.append(Picture("graph", caption.format(label.replace(r"\$", "$")), what, graph))
    return tuple(pictures), []


def _graph_figure(run: RecordedRun) -> Any:
    from graphs import dependency_graph, draw, similarity

    if run.n_clients > MOST_NODES:
        raise DataError(f"a picture of {run.n_clients} clients shows nothing; the most are {MOST_NODES}")
    labels = load_data(**run.config["data"]).label_distributions
    return draw(dependency_graph(similarity(labels)), selected=run.records[-1]["selected"], labels=labels)
