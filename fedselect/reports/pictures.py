"""Captions and text alternatives of the pictures of a page, and which pictures it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedselect.data import load_data
from fedselect.errors import TOOLKIT_ERRORS, DataError
from fedselect.experiments.figures import (
    Raster,
    client_curve,
    client_curves_figure,
    counts_figure,
    curves_figure,
    gap_figure,
    known_curves,
    presence_figure,
    run_timeline_figure,
    seconds_figure,
    success_figure,
    sweep_figure,
    swept_values,
    timeline_figure,
    weights_figure,
)
from fedselect.measures import client_rounds
from fedselect.reports.document import Picture
from fedselect.selectors.geometry import decode_edges
from solvers.reading import without_controls

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedselect.experiments.reading import RecordedRun

_UNDRAWN: tuple[type[Exception], ...] = (*TOOLKIT_ERRORS, MemoryError)

#: Clients beyond which a drawing of their graph shows nothing any more.
MOST_NODES = 200


def sweep_pictures(means: pd.DataFrame) -> tuple[Picture, ...]:
    """Draw final loss, and accuracy where all have it, over swept numbers, where labels of `mean_table` have some."""
    labels = [without_controls(label).replace("$", r"\$") for label in means["selector"]]
    keys = swept_values(labels)
    if not keys or means["final_loss"].isna().any():
        return ()
    what = "loss" if means["final_accuracy"].isna().any() else "loss and accuracy"
    return (
        Picture(
            "sweep",
            f"Test {what} after the last round over {' and '.join(keys)}: mean and deviation over seeds.",
            "Line charts over the values of each key, with a line for every value of the others.",
            sweep_figure(means.assign(selector=labels)),
        ),
    )


def pictures_of(runs: Mapping[str, Sequence[RecordedRun]]) -> tuple[tuple[Picture, ...], list[str]]:
    """Draw runs.

    Parameters
    ----------
    runs : mapping of str to sequence of RecordedRun
        The runs of each label, one per seed, each with at least one round.

    Returns
    -------
    pictures : tuple of Picture
        Those there is something to draw for.
    notes : list of str
        Sentences: that all decisions with a bound are proved, in place of a picture, or why the graph is not drawn.
    """
    # Matplotlib would read a pair of dollar signs in a label as a formula.
    runs = {without_controls(label).replace("$", r"\$"): each for label, each in runs.items()}
    records = {label: [run.records for run in each] for label, each in runs.items()}
    tables = {label: [run.table for run in each] for label, each in runs.items()}
    clients = max(run.n_clients for each in runs.values() for run in each)
    over_seeds = " (mean over seeds)" if any(len(each) > 1 for each in runs.values()) else ""
    band = ": mean over seeds, band from lowest to highest" if over_seeds else ""
    known = known_curves(tables)
    measured = " and ".join(each for each in known if each != "validation_loss")
    measured = measured or "loss, of which nothing was measured yet"
    measured += ", and validation loss" if "validation_loss" in known else ""
    notes: list[str] = []
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
    if all("seconds" in table for each in tables.values() for table in each) and known:
        pictures.append(
            Picture(
                "seconds",
                f"Test {measured} over seconds{': median over seeds, band of all' if over_seeds else ''}.",
                f"Line charts over the seconds of the clock of test {measured}, with a line for every selector.",
                seconds_figure(tables),
            )
        )
    curves = {label: [client_rounds(each).dropna(subset="loss") for each in seeds] for label, seeds in records.items()}
    if all(len(each) for seeds in curves.values() for each in seeds):
        pictures.append(
            Picture(
                "clients",
                f"{client_curve(curves).capitalize()} at the clients over the rounds{over_seeds}: mean over clients, "
                "dotted the worst tenth, all clients as thin lines or a band from lowest to highest; beside it their "
                "Gini coefficient (0: all alike).",
                "Two line charts over the rounds, with lines for every selector.",
                client_curves_figure(curves),
            )
        )
    solved = [table.dropna(subset="gap") for each in tables.values() for table in each]
    if all((table["status"] == "optimal").all() for table in solved):
        if decisions := sum(map(len, solved)):
            longest = max(float(table["solve_seconds"].max()) for table in solved if len(table))
            notes.append(f"All {decisions} decisions with a bound are proved optimal, the longest in {longest:.2g} s.")
    else:
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
        caption, graph = _graph_figure(runs[label][0])
    except _UNDRAWN as error:
        return tuple(pictures), [*notes, f"The graph of the clients is not drawn: {error}."]
    caption += f" Marked: the last selection of {label}."
    what = "Network: a pie of its labels for every client, with edges between similar clients."
    pictures.append(Picture("graph", caption.replace(r"\$", "$"), what, graph))
    return tuple(pictures), notes


def _graph_figure(run: RecordedRun) -> tuple[str, Figure]:
    """Draw the graph that a run's selector used, of which its record has the edges where they are no oracle's."""
    import networkx as nx

    from graphs import dependency_graph, draw, edge_scores, similarity

    if run.n_clients > MOST_NODES:
        raise DataError(f"a picture of {run.n_clients} clients shows nothing; the most are {MOST_NODES}")
    # A run may be a stranger's: its page reads the data where they are, and downloads none.
    where = {name: value for name, value in run.config["data"].items() if name != "download"}
    federation, selector = load_data(**where), run.config["selector"]
    labels, preset = federation.label_distributions, selector.get("graph", "reference")
    exact = dependency_graph(similarity(labels), preset=preset)
    shown: dict[str, Any] = {"selected": run.records[-1]["selected"], "labels": labels}
    features = selector.get("features", "labels")
    told = [note["edges"] for each in run.records if "edges" in (note := each.get("notes", {}).get("graph", {}))]
    if told:
        try:
            used = nx.from_numpy_array(decode_edges(told[-1], run.n_clients))
        except (TypeError, ValueError) as error:
            raise DataError(f"notes.graph.edges of the record are no edges of {run.n_clients} clients") from error
        agree = edge_scores(used, exact)
        made = {"secure": "similarities under masks", "update": "updates", "functional": "embeddings"}.get(features)
        noise = f" with noise {selector['noise']}" if selector.get("noise") else ""
        caption = (
            f"The 3DG that the selector used, made of {made or features}{noise}: {agree.predicted} edges, of which "
            f"{agree.true_positives} are among the {agree.true} of the exact graph of the label distributions "
            f"(precision {agree.precision:.3f}, recall {agree.recall:.3f}, F1 {agree.f1:.3f})."
        )
        if features == "secure":
            caption += (
                " Masks hide each client's counts. Whoever gets the products learns how similar every two clients are, "
                "which is no differential privacy: see the documentation, Privacy: a graph from private label counts."
            )
        # How similar two clients are is not in the record, so that no edge is stronger than another: all are drawn.
        return caption, draw(used, edges_per_client=run.n_clients, **shown)
    if features == "parameters" and federation.parameters is not None:
        of_parameters = similarity(federation.parameters)
        return (
            "The 3DG of what generated the clients' data.",
            draw(dependency_graph(of_parameters, preset=preset, epsilon=selector.get("epsilon")), **shown),
        )
    caption = "The 3DG of the clients' label distributions."
    if selector.get("epsilon") is not None:
        exact = dependency_graph(similarity(labels), preset=preset, epsilon=selector["epsilon"])
    if "distances_file" in selector or "points_file" in selector:
        caption += " The selector's distances are those of its file, and not of this graph."
    return caption, draw(exact, **shown)


def timelines(records: Sequence[Mapping[str, Any]]) -> tuple[Picture, ...]:
    """Draw the timeline of a run with a clock, and of its longest round; nothing where there is no clock."""
    played = [record for record in records if record.get("selected") and "clock" in record]
    if not played:
        return ()
    slowest = max(played, key=lambda record: record["seconds"] - record["clock"]["start"])
    late = sum(len(record["clock"]["late"]) for record in played)
    length = slowest["seconds"] - slowest["clock"]["start"]
    return (
        Picture(
            "timeline",
            "Timeline of the run: when each client worked, and whether its update was used (of at most 60 clients).",
            f"Bars per client over {played[-1]['seconds']:.4g} seconds; {late} times a client was too late.",
            run_timeline_figure(played),
        ),
        Picture(
            "slowest-round",
            "Timeline of the longest round: download, training and upload of each selected client; a cross marks those "
            "whose update was not used.",
            f"Bars per client of round {slowest['round'] + 1}, which took {length:.4g} seconds.",
            timeline_figure(slowest),
        ),
    )


def participation_pictures(records: Sequence[Mapping[str, Any]], clients: int) -> tuple[Picture, ...]:
    """Draw the two pictures of a run that has played a round, with captions and text alternatives in numbers."""
    raster = Raster.of(records, clients)
    selections = int((raster.states >= 2).sum())
    lost, unusable = int((raster.states == 3).sum()), int((raster.states == 4).sum())
    never = int((~(raster.states >= 2).any(axis=1)).sum())
    share = float((raster.states > 0).mean())
    sums = raster.weights.sum(axis=0)
    return (
        Picture(
            "selected-when",
            "Who was selected when: a row a client, most available first, on the ground of who was there."
            + raster.shared("last of their states in the order of the legend"),
            f"Raster of {clients} clients by {len(records)} rounds. Clients are available in {share:.0%} of all cells; "
            f"{selections} selections, {lost} without an update and {unusable} with an unusable one; "
            f"clients never selected: {never}.",
            presence_figure(raster),
        ),
        Picture(
            "weights",
            "Weights over time: those applied to each client's updates, rows as above, and their sum in each round."
            + raster.shared("largest weight"),
            f"Raster of {clients} clients by {len(records)} rounds over a line chart. The largest weight is "
            f"{raster.weights.max():.3g}; the sum of a round lies between {sums.min():.3g} and {sums.max():.3g}.",
            weights_figure(raster),
        ),
    )
