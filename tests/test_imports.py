"""What importing costs, and that the solver libraries live in one process; each test in a fresh interpreter."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.thoroughly import few_of
from tests.waiting import HANG

HEAVY = (
    "torch",
    "torchvision",
    "pyarrow",
    "cvxpy",
    "ortools",
    "sklearn",
    "matplotlib",
    "flwr",
    "highspy",
    "scipy.optimize",
)


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_imports_load_nothing_heavy():
    """One after the other in one process: what an import loads stays, so the first line that is not empty has it."""
    modules = ("solvers", "solvers.dispersion", "solvers.benchmark", "graphs", "fedselect", "fedselect.data")
    code = "import sys\n" + "".join(
        f"import {module}; print({module!r}, [m for m in {HEAVY!r} if m in sys.modules])\n" for module in modules
    )
    assert _python(code).splitlines() == [f"{module} []" for module in modules]


_FIRST_SOLVE = """
import sys
from solvers import solve
from solvers.constraints import Quota
from solvers.dispersion import DispersionProblem
from solvers.registry import method

def there(problem, run):
    print("scipy.optimize" in sys.modules)
    return [1, 1, 0]

method(DispersionProblem, "own-heuristic", kind="heuristic", constraints=True)(there)
method(DispersionProblem, "own-exact", kind="exact")(there)
H = [[0, 1, 2], [1, 0, 3], [2, 3, 0]]
solve(DispersionProblem(H, size=2), "own-heuristic")
solve(DispersionProblem(H, size=2, quotas=QUOTAS), ASKED)
"""


@pytest.mark.parametrize(
    ("asked", "quotas"),
    [
        ("'own-exact'", "()"),
        ("'own-heuristic'", "[Quota([0], 1)]"),
        ("'own-heuristic', bound_by='brute-force'", "()"),
        ("'own-heuristic', certificate=True", "()"),
    ],
)
def test_what_bounds_and_constraints_import_is_there_before_a_method_begins(asked, quotas):
    """So that it does not count against the time limit; a heuristic alone without constraints needs none of it."""
    code = _FIRST_SOLVE.replace("ASKED", asked).replace("QUOTAS", quotas)
    assert _python(code).split() == ["False", "True"]


_CVXPY = """
x = cvxpy.Variable(integer=True)
problem = cvxpy.Problem(cvxpy.Maximize(x), [2 * x <= 7])
problem.solve(solver=cvxpy.HIGHS)
assert round(float(x.value)) == 3
"""
_ORTOOLS = """
model = cp_model.CpModel()
y = model.new_int_var(0, 9, "y")
model.add(2 * y <= 7)
model.maximize(y)
solver = cp_model.CpSolver()
assert solver.solve(model) == cp_model.OPTIMAL and solver.value(y) == 3
"""


@pytest.mark.parametrize(
    "imports",
    few_of(
        [
            "import cvxpy\nfrom ortools.sat.python import cp_model",
            "from ortools.sat.python import cp_model\nimport cvxpy",
        ],
        1,
    ),
    ids=["cvxpy first", "ortools first"],
)
@pytest.mark.parametrize("solves", few_of([_CVXPY + _ORTOOLS, _ORTOOLS + _CVXPY], 1))
def test_cvxpy_and_ortools_live_in_one_process(imports, solves):
    """Both carry HiGHS; with highspy 1.15 or later, whichever is imported second breaks."""
    assert "undefined symbol" not in _python(imports + solves)


#: Packages named otherwise than the distribution that brings them.
_BROUGHT_BY = {
    "sklearn": "scikit-learn", "PIL": "pillow", "tomli_w": "tomli-w", "mlflow": "mlflow-skinny", "ray": "flwr",
    "dwave": "dwave-samplers", "dimod": "dwave-samplers",
}  # fmt: skip
_ROOMS = ("solvers", "graphs", "fedselect")


def _imported(source: str) -> set[str]:
    """Name the packages that a file imports, anywhere in it, but Python's own and ours."""
    nodes = list(ast.walk(ast.parse(source)))
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {module.partition(".")[0] for module in modules}.difference(sys.stdlib_module_names, _ROOMS)


def test_what_is_imported_is_declared():
    """What another package happens to bring can be gone in its next version: click is no longer typer's."""
    top = Path(__file__).parents[1]
    project = tomllib.loads((top / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        project["optional-dependencies"][extra] for extra in project["optional-dependencies"].keys() - {"docs", "dev"}
    ]
    declared = {re.split(r"[^\w-]", line)[0] for lines in (project["dependencies"], *extras) for line in lines}
    imported = set().union(
        *(_imported(path.read_text("utf-8")) for room in _ROOMS for path in (top / room).rglob("*.py"))
    )
    assert imported >= {"numpy", "torch", "gurobipy", "PIL"}
    assert {_BROUGHT_BY.get(name, name) for name in imported} <= declared
    assert _imported("import click, os\ndef f():\n    from ray.util import x\n    from . import y") == {"click", "ray"}


def test_highspy_is_below_the_version_that_clashes():
    from importlib.metadata import version

    assert tuple(int(part) for part in version("highspy").split(".")[:2]) < (1, 15)


@pytest.mark.parametrize("package", ["solvers", "graphs", "fedselect"])
def test_public_names_are_there(package):
    """What a public module lists it has; the pages of the reference are made of these lists."""
    lacking, listed = [], 0
    root = importlib.import_module(package)
    for name in (package, *(found.name for found in pkgutil.walk_packages(root.__path__, f"{package}."))):
        if name.endswith(("__main__", "check_certificate")):
            continue
        module = importlib.import_module(name)
        names = getattr(module, "__all__", [])
        listed += len(names)
        lacking += [f"{name}.{each}" for each in names if not hasattr(module, each)]
    assert lacking == []
    assert listed > 20
