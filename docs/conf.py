"""Sphinx configuration: ``make docs`` builds the site into ``docs/_build/html`` with warnings as errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_extensions")]
# Pages and examples are executed: their processes import this checkout, and bring no noise. Kernels choose the backend
# that shows figures on the page (one named here would be taken instead); the gallery draws without a screen by itself.
folders = [str(HERE.parent), str(HERE / "_extensions"), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(folders)
os.environ.pop("MPLBACKEND", None)
os.environ.setdefault("COLUMNS", "80")

from solvers.version import __version__  # noqa: E402  (of this checkout)

project = "fedselect"
author = "the fedselect authors"
copyright = author
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "generated_pages",
    "executed_ahead",
    "offline_mathjax",
]
exclude_patterns = ["_build", "**/_draft*", "examples/*.ipynb", "examples/*.py", "examples/*.zip"]
templates_path = ["_templates"]
nitpicky = False
# Scripts of studies are no pages; some are called as the example of their paper is.
suppress_warnings = ["config.cache", "mystnb.unknown_mime_type", "sphinx_gallery.duplicate_filename"]

# -- pages -------------------------------------------------------------------------------------------------------------
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "executed")
nb_execution_timeout = 600  # a busy machine gives a cell a tenth of a core
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
if tags.has("quick"):  # noqa: F821  (Sphinx provides it)
    # `make docs-quick`: text, links and references in a minute; code and examples are shown, and not executed.
    nb_execution_mode = "off"
    suppress_warnings += ["myst-nb.lexer"]

# -- reference ---------------------------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
default_role = "literal"

# -- examples ----------------------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["examples"],
    "image_scrapers": ("matplotlib", "figure_scraper.unmanaged_figures"),
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "capture_repr": (),  # what an example shows it prints
    "abort_on_example_error": True,
    "parallel": True,  # as many at once as -j says
    "write_computation_times": False,  # its pages fetch scripts from elsewhere
    "plot_gallery": not tags.has("quick"),  # noqa: F821
}

# -- the site ----------------------------------------------------------------------------------------------------------
smartquotes_action = "q"  # two hyphens stay two: commands stand in tables, too
html_theme = "furo"
html_title = f"fedselect {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = ["llms.txt"]
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

#: No page fetches anything from elsewhere, formulas included (`offline_mathjax`).
intersphinx_mapping: dict[str, tuple[str, None]] = {}
