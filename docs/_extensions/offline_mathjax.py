"""Formulas without a network: MathJax 3 and its fonts from an installed package, laid beside the pages that use them.

``sphinx-mathjax-offline`` ships MathJax as its makers publish it, 24 MB of it; one script and the fonts are what pages
need (1.8 MB). So nothing is fetched when a page is read, and nothing of it is kept in the repository.
"""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_PACKAGE = "sphinx-mathjax-offline"
_FOLDER = "static/mathjax/"
_SCRIPT, _FONTS = "tex-chtml.js", "output/chtml/fonts/woff-v2/"


def setup(app: Sphinx) -> dict[str, Any]:
    """Point Sphinx's formulas to the copy, and make it when the pages are written."""
    app.config.mathjax_path = f"mathjax/{_SCRIPT}"
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _copy(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    try:
        shipped = files(_PACKAGE) or []
    except PackageNotFoundError:
        raise ExtensionError(f"formulas need {_PACKAGE}, which `pip install '.[docs]'` brings") from None
    for path in shipped:
        name = path.as_posix().partition(_FOLDER)[2]
        if name == _SCRIPT or name.startswith(_FONTS):
            target = Path(app.outdir) / "_static" / "mathjax" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path.locate(), target)
