"""Who has what: a federation in a table and in a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedselect.data.federation import Federation
from solvers.benchmark.figures import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["client_overview", "federation_figure"]

#: Classes beyond which a legend of them helps nobody.
_LEGEND = 20


def client_overview(federation: Federation) -> pd.DataFrame:
    """One row a client.

    Returns
    -------
    DataFrame
        ``samples`` and ``validation`` (samples held out); of classes ``labels`` (how many different), ``commonest``
        and ``share`` (of the samples); of targets ``mean`` and ``std``, over all of a client's.
    """
    import pandas as pd

    held = [len(samples) for samples in federation.validation] or [0] * len(federation)
    columns = {"client": np.arange(len(federation)), "samples": federation.sizes, "validation": held}
    if federation.classes is None:
        columns["mean"] = [float(samples.labels.mean()) for samples in federation.datasets]
        columns["std"] = [float(samples.labels.std()) for samples in federation.datasets]
    else:
        counts = federation.label_counts
        columns["labels"] = np.count_nonzero(counts, axis=1)
        columns["commonest"] = counts.argmax(axis=1)
        columns["share"] = counts.max(axis=1) / federation.sizes
    return pd.DataFrame(columns).set_index("client")


def federation_figure(federation: Federation, clients: NDArray[np.int64] | None = None) -> Figure:
    """Samples of each client by label, as stacked bars; of real numbers, the samples and the spread of the targets.

    Parameters
    ----------
    federation : Federation
        Whose samples.
    clients : (k,) ndarray of int, optional
        Show these alone, in this order; all if left out.

    Returns
    -------
    matplotlib.figure.Figure
        Made without pyplot: it changes nothing global; notebooks show it.
    """
    from matplotlib.figure import Figure

    from graphs.drawing import palette

    figure = Figure(figsize=(11, 5.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    shown = np.arange(len(federation)) if clients is None else clients
    x = np.arange(len(shown))
    if federation.classes is None:
        above.bar(x, federation.sizes[shown], width=1.0, color=COLOURS[0])
        table = client_overview(federation).loc[shown]
        below.errorbar(x, table["mean"], yerr=table["std"], fmt=".", color=COLOURS[1])
        below.set_ylabel("targets, mean ± std")
    else:
        counts, bottom = federation.label_counts[shown], np.zeros((2, len(shown)))
        shades = palette(federation.classes)  # those of a drawing of the graph
        shares = federation.label_distributions[shown]
        for label, colour in enumerate(shades):
            for axis, values, floor in ((above, counts, bottom[0]), (below, shares, bottom[1])):
                axis.bar(x, values[:, label], width=1.0, bottom=floor, color=colour, label=str(label))
            bottom += np.stack([counts[:, label], shares[:, label]])
        below.set_ylabel("share of each label")
        below.set_ylim(0, 1)
        if federation.classes <= _LEGEND:
            handles, names = above.get_legend_handles_labels()
            figure.legend(handles[::-1], names[::-1], title="label", loc="outside right", fontsize=8)
    above.set_ylabel("samples")
    above.set_title(f"{federation.name}: {len(federation)} clients, {federation.sizes.sum()} samples", fontsize=10)
    below.set_xlabel("client" if clients is None else "clients shown")
    above.margins(x=0)
    return figure
