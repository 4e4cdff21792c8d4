"""Show figures of examples that pyplot does not know: those of `graphs.draw` and of the benchmarks."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst


def unmanaged_figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save each new figure of a block without a number, its titles as the text alternative."""
    shown = []
    for value in list(block_vars["example_globals"].values()):
        if isinstance(value, Figure) and not hasattr(value, "number") and not hasattr(value, "_in_gallery"):
            value._in_gallery = True  # type: ignore[attr-defined]
            path = next(block_vars["image_path_iterator"])
            value.savefig(path, dpi=100)
            titles = [value.get_suptitle(), *(axes.get_title() for axes in value.axes)]
            shown.append(figure_rst([path], gallery_conf["src_dir"], ", ".join(filter(None, titles))))
    return "".join(shown)
