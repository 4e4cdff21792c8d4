"""Naming a method costs nothing: back-ends load inside the method that needs them."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["solvers.weighting", "solvers.participation"])
def test_import_loads_no_backend(module):
    script = f"import sys, {module}; print([m for m in ('cvxpy', 'ortools', 'scipy', 'pandas') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
