"""Execute the pages that have code before Sphinx reads them, as many at once as ``-j`` says.

Sphinx would read, and so execute, neighbouring pages in one process. What is executed here goes into the cache that
MyST-NB looks into; a page that fails is executed by it again, and it is MyST-NB that reports the error.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor
from myst_nb.core.read import is_myst_markdown_notebook
from sphinx.application import Sphinx
from sphinx.util.matching import get_matching_files

#: How MyST-NB reads a page, in the words of the cache.
_READER = {"type": "plugin", "name": "myst_nb_md"}


def setup(app: Sphinx) -> dict[str, Any]:
    """Execute once the pages are written that are made from code."""
    for name in ("jupyter_cache", "traitlets"):  # they tell of every page four times
        logging.getLogger(name).setLevel(logging.WARNING)
    app.connect("builder-inited", _execute, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _execute(app: Sphinx) -> None:
    if app.config.nb_execution_mode != "cache" or app.parallel < 2:
        return
    cache = get_cache(app.config.nb_execution_cache_path)
    pages = []
    for name in get_matching_files(app.srcdir, ["**.md"], app.config.exclude_patterns):
        page = Path(app.srcdir, name)
        if is_myst_markdown_notebook(page.read_text(encoding="utf-8")):
            pages.append(cache.add_nb_to_project(str(page), read_data=_READER).uri)
    stale = [record.uri for record in cache.list_unexecuted(pages)]

    def execute(page: str) -> None:
        executor = load_executor("local-serial", cache)
        executor.run_and_cache(filter_uris=[page], timeout=app.config.nb_execution_timeout)

    with ThreadPoolExecutor(app.parallel) as pool:  # each page is a process of its own, for which a thread waits
        list(pool.map(execute, stale))
