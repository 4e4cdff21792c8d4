"""What importing the package brings with it."""

from __future__ import annotations

import subprocess
import sys

import graphs


def test_the_heavy_libraries_load_only_where_they_are_used():
    heavy = ["torch", "sklearn", "matplotlib", "scipy", "networkx", "pandas", "solvers", "fedselect"]
    code = f"import sys, graphs; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_everything_public_is_documented():
    for name in graphs.__all__:
        thing = getattr(graphs, name)
        if callable(thing):
            assert thing.__doc__, name
