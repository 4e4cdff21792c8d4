"""The kernels: what can be done without them, and what becomes of a cache that is of no use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from solvers.dispersion.compiled import compiled, registered

from solvers import solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.bounds import conditions, dominance
from solvers.dispersion.search import plain_tree
from solvers.dispersion.search.nodes import Form, Goal, Log, Node, Order, Stack
from solvers.instances import names
from tests.waiting import HANG

ROOT = Path(__file__).parents[3]

#: The kernels never become ready; a lookup of machine code in the user's folders is no help either.
BLOCKED = """
import threading
import numpy as np
import solvers.dispersion.compiled as kernels
kernels._load = lambda name, precision: threading.Event().wait()
from solvers import solve
from solvers.dispersion import DispersionProblem, Memory
"""

README = """
rng = np.random.default_rng(0)
points = rng.random((40, 3))
H = np.linalg.norm(points[:, None] - points, axis=2)
problem = DispersionProblem(distances=H, costs=rng.random(40), size=8, weight=0.1)
"""


def run(script: str, cache: Path, *, modules: str = "") -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh interpreter with a cache of its own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", script + "\nimport os, sys; sys.stdout.flush(); os._exit(0)"],
        env=environment,
        cwd=cache.parent,
        capture_output=True,
        text=True,
        timeout=HANG,
    )


def test_readme_is_proved_without_kernels(tmp_path):
    script = BLOCKED + README + "s = solve(problem, time_limit=600)\nprint(s.status, s.selected.tolist())"
    done = run(script, tmp_path / "cache")
    assert done.stdout.split(maxsplit=1)[0] == "optimal", done.stderr
    assert "numba" not in done.stderr
    assert not list(tmp_path.rglob("*.nbi"))


def test_rounds_of_a_hundred_have_a_certified_gap_without_kernels(tmp_path):
    rounds = [name for name in names() if name.startswith("fedgs") and "-n100-" in name]
    assert len(rounds) > 10
    script = BLOCKED + (
        "from solvers.instances import load, best\n"
        "def enough(point):\n"
        "    known = point.objective is not None and point.bound is not None\n"
        "    if known and point.bound - point.objective <= 0.01 * abs(point.objective):\n"
        "        raise KeyboardInterrupt\n"
        f"for name in {rounds!r}:\n"
        "    problem = load(name)\n"
        "    s = solve(problem, time_limit=600, watch=enough)\n"
        "    print(name, s.bound >= problem.objective(best(name)), s.gap)\n"
    )
    done = run(script, tmp_path / "cache")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == len(rounds), done.stderr
    assert all(valid == "True" for _, valid, _ in lines)
    assert all(float(gap) <= 0.01 for *_, gap in lines)


def test_small_cases_without_kernels_agree_with_enumeration(tmp_path):
    script = BLOCKED + (
        "rng = np.random.default_rng(5)\n"
        "for n, m in ((9, 3), (11, 4), (12, 6), (13, 10)):\n"
        "    for kind in ('euclidean', 'ties', 'uniform'):\n"
        "        H = rng.random((n, n)) if kind == 'uniform' else rng.integers(0, 3, (n, n)).astype(float)\n"
        "        if kind == 'euclidean':\n"
        "            points = rng.random((n, 2))\n"
        "            H = np.linalg.norm(points[:, None] - points, axis=2)\n"
        "        H = np.triu(H, 1)\n"
        "        problem = DispersionProblem(H + H.T, rng.normal(size=n), m, weight=0.3)\n"
        "        exact = solve(problem, 'brute-force').objective\n"
        "        tree, sdp = solve(problem, 'branch-and-bound', time_limit=600), solve(problem, 'sdp', time_limit=60)\n"
        "        print(tree.status, abs(tree.objective - exact) <= 1e-6, tree.bound >= exact, sdp.bound >= exact)\n"
    )
    done = run(script, tmp_path / "cache")
    assert done.stdout.splitlines() == ["optimal True True True"] * 12, done.stderr


@pytest.mark.parametrize("damage", ["index", "data", "folder"])
def test_a_useless_cache_is_done_without(tmp_path, damage):
    """Garbage in the cache, or a file where the folder should be: one line in the log, and an answer."""
    cache = tmp_path / "cache"
    script = (
        "import logging; logging.basicConfig(format='%(name)s %(message)s')\n"
        "from solvers.dispersion.compiled import compiled, folder\n"
        "schur = compiled('schur')\n"
        "import numpy as np; i = np.arange(3); o = np.ones(3)\n"
        "print(schur.assemble(np.eye(3), np.eye(3), i, i, o, o).sum())\n"
    )
    # Only this kernel, so that the test takes one compilation and not five.
    script = "import solvers.dispersion.compiled as kernels; kernels._COMMON = ('schur',)\n" + script
    if damage == "folder":
        cache.write_text("not a folder")
    else:
        first = run(script, cache)
        assert "solvers" not in first.stderr
        files = list(cache.rglob("*.nbi" if damage == "index" else "*.nbc"))
        assert files
        for file in files:
            file.write_bytes(b"garbage")
    done = run(script, cache)
    three = np.arange(3)
    expected = compiled("schur").assemble(np.eye(3), np.eye(3), three, three, np.ones(3), np.ones(3)).sum()
    assert done.stdout == f"{expected}\n", done.stderr
    if damage != "folder":  # there numba itself turns to the next place
        assert done.stderr.count("solvers ") == 1
    if damage == "index":
        assert run(script, cache).stderr == ""  # mended


def test_a_cache_that_cannot_be_written(tmp_path):
    """No place for the machine code at all: compiled in memory, one line in the log."""
    script = (
        "import logging; logging.basicConfig(format='%(name)s %(message)s')\n"
        "from numba.core import caching\n"
        "class Full(caching.UserProvidedCacheLocator):\n"
        "    def ensure_cache_path(self): raise OSError(28, 'No space left on device')\n"
        "caching.CacheImpl._locator_classes = [Full]\n"
        "import solvers.dispersion.compiled as kernels; kernels._COMMON = ('schur',)\n"
        "print(kernels.compiled('schur').assemble.signatures != [])\n"
    )
    done = run(script, tmp_path / "cache")
    assert done.stdout == "True\n", done.stderr
    assert done.stderr.count("solvers ") == 1


def test_a_disk_that_fills_up(tmp_path):
    """The machine code cannot be saved: it is used all the same."""
    script = (
        "import logging; logging.basicConfig(format='%(name)s %(message)s')\n"
        "from numba.core import caching\n"
        "def full(*arguments): raise OSError(28, 'No space left on device')\n"
        "caching.IndexDataCacheFile._save_data = full\n"
        "import solvers.dispersion.compiled as kernels; kernels._COMMON = ('schur',)\n"
        "print(kernels.compiled('schur').assemble.signatures != [])\n"
    )
    done = run(script, tmp_path / "cache")
    assert done.stdout == "True\n", done.stderr
    assert done.stderr.count("solvers ") == 1


def random_problem(n: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 3, (n, 2)) + 0.2 * rng.random((n, 2))
    return np.linalg.norm(points[:, None] - points, axis=2) / 2, rng.random(n)


@pytest.mark.parametrize(("n", "m"), [(12, 2), (20, 7), (30, 29)])
def test_preferences_without_kernel(n, m):
    """The compiled and the plain form find the same pairs (rounding decides nothing here)."""
    q, linear = random_problem(n, m, n)
    rank = 2 * (m - 1) / (n - 2) * q.sum(axis=1) + linear
    expected = compiled("preference").preferences(q, linear, m, rank, 1e-9)
    found = dominance._preferences(q, linear, m, rank, 1e-9)
    assert expected.any()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [5, 90])
def test_schur_complement_without_kernel(count):
    """The same numbers to the bit, so that answers do not depend on the cache."""
    rng = np.random.default_rng(count)
    n = 20
    outer, inner = (a @ a.T for a in rng.random((2, n, n)))
    i, j = rng.integers(0, n, (2, count))
    a, b = rng.integers(-1, 2, (2, count)).astype(float)
    expected = compiled("schur").assemble(outer, inner, i, j, a, b)
    np.testing.assert_array_equal(conditions._assemble(outer, inner, i, j, a, b), expected)


@pytest.mark.parametrize("seed", range(4))
def test_trees_agree(seed):
    """Compiled or not, the tree finds the same best value from the same root."""
    n, m = 14, 5
    q, linear = random_problem(n, m, seed)
    top = np.linalg.eigvalsh(q)[-1]
    curved, lifted = q - top * np.eye(n), linear + top
    order = dominance.dominance(q, linear, m)
    lists = Order(order.above_start, order.above, order.below_start, order.below)
    values = []
    for explore in (compiled("tree").explore, plain_tree.explore):
        incumbent, count, total = -np.inf, 1, 0
        stack = Stack.room(n)
        stack.points[0], stack.bounds[0] = m / n, np.inf
        while count:
            best = np.zeros(n, dtype=np.int8)
            goal = Goal(incumbent, 1e-9, 0.2, 10**9)
            form = Form(curved, curved, lifted, m, 1e-12, np.ones(n))
            nodes, _, count, incumbent = explore(form, lists, stack, count, goal, best, Node.room(n), Log.room(0, n))
            total += nodes
        values.append(incumbent)
        assert total > 1
    problem = DispersionProblem(q - np.diag(q.diagonal()), -linear, size=m)
    exact = solve(problem, "brute-force").objective
    np.testing.assert_allclose(values, exact, rtol=0, atol=1e-8)


def test_every_kernel_is_registered_once():
    assert len(set(registered())) == len(registered())
    assert {"tree", "preference", "schur", "swaps", "annealing", "ascent"} <= {name for name, _ in registered()}
