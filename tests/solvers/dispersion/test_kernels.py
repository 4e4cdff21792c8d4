"""Kernels: the same bits by Python as compiled, from a cold cache as from a warm one, and what a useless cache does."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solvers import solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.kernels import compiler, load, loader, registered
from solvers.dispersion.kernels.tree_data import Form, Goal, Log, Order, Stack, Workspace
from solvers.dispersion.relaxations.dominance import dominance
from solvers.instances import names
from solvers.run import Run
from tests.thoroughly import few_of
from tests.waiting import HANG

ROOT = Path(__file__).parents[3]

#: Compiling a kernel ends the solve.
BLOCKED = """
import numpy as np
from solvers.dispersion.kernels import loader
def stop(name, precision): raise KeyboardInterrupt
loader._compiled = stop
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


def test_readme_is_proved_without_compiling(tmp_path):
    script = BLOCKED + README + "s = solve(problem, time_limit=600)\nprint(s.status, s.selected.tolist())"
    done = run(script, tmp_path / "cache")
    assert done.stdout.split(maxsplit=1)[0] == "optimal", done.stderr
    assert "numba" not in done.stderr
    assert not list(tmp_path.rglob("*.nbi"))


ROUNDS = (
    "from solvers.instances import load, best\n"
    "def enough(point):\n"
    "    known = point.objective is not None and point.bound is not None\n"
    "    if known and point.bound - point.objective <= 0.01 * abs(point.objective):\n"
    "        raise KeyboardInterrupt\n"
    "for name in names:\n"
    "    problem, loader._steps = load(name), 0\n"
    "    s = solve(problem, time_limit=600, watch=enough)\n"
    "    print(name, s.bound >= problem.objective(best(name)), s.gap, loader._steps)\n"
)


def gaps_of_rounds(before: str, cache: Path) -> tuple[list[float], int]:
    """Gaps of all rounds of 100 clients in the library, to 1 % or until something is compiled; most steps of Python."""
    rounds = [name for name in names() if name.startswith("fedgs") and "-n100-" in name]
    assert len(rounds) > 10
    done = run(BLOCKED + f"names = {rounds!r}\n" + before + ROUNDS, cache)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == len(rounds), done.stderr
    assert all(valid == "True" for _, valid, *_ in lines)
    return [float(gap) for *_, gap, _ in lines], max(int(steps) for *_, steps in lines)


@pytest.mark.thorough
def test_rounds_of_a_hundred_have_a_certified_gap_in_the_first_second(tmp_path):
    """By counted work, whatever the machine is busy with: a step of Python takes some 0.2 microseconds."""
    gaps, steps = gaps_of_rounds("", tmp_path / "cache")
    assert 0 < steps <= 1 / 0.2e-6
    assert max(gaps) <= 0.07
    assert sum(gap > 0.01 for gap in gaps) <= 5


@pytest.mark.thorough
def test_rounds_of_a_hundred_have_a_small_certified_gap_without_compiling(tmp_path):
    gaps, _ = gaps_of_rounds("loader._INTERPRETED = 10**12\n", tmp_path / "cache")
    assert max(gaps) <= 0.01


def test_small_cases_without_compiling_agree_with_enumeration(tmp_path):
    script = BLOCKED + (
        "rng = np.random.default_rng(5)\n"
        "for n, m in ((9, 3), (11, 4), (12, 6), (13, 10)):\n"
        "    for kind in ('euclidean', 'ties', 'uniform'):\n"
        "        H = rng.random((n, n)) if kind == 'uniform' else rng.integers(0, 3, (n, n)).astype(float)\n"
        "        if kind == 'euclidean':\n"
        "            points = rng.random((n, 2))\n"
        "            H = np.linalg.norm(points[:, None] - points, axis=2)\n"
        "        H = np.triu(H, 1)\n"
        "        problem = DispersionProblem(H + H.T, rng.normal(size=n), size=m, weight=0.3)\n"
        "        loader._steps = 0\n"
        "        exact = solve(problem, 'brute-force').objective\n"
        "        tree, sdp = solve(problem, 'branch-and-bound', time_limit=600), solve(problem, 'sdp', time_limit=60)\n"
        "        print(tree.status, abs(tree.objective - exact) <= 1e-6, tree.bound >= exact, sdp.bound >= exact)\n"
    )
    done = run(script, tmp_path / "cache")
    assert done.stdout.splitlines() == ["optimal True True True"] * 12, done.stderr


TINY = """
from numba import float64
from solvers.dispersion.kernels.compiler import part

@part
def double(x):
    return 2.0 * x

def twice(x):
    return double(x)

def signatures(precision):
    return {twice: (float64,)}

__all__ = ["twice"]
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Compile a kernel of one line as a new process would, with the cache in a folder of its own."""
    import numba

    (tmp_path / "tiny.py").write_text(TINY)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))

    def compiled():
        location = importlib.util.spec_from_file_location("tiny", tmp_path / "tiny.py")
        module = importlib.util.module_from_spec(location)
        location.loader.exec_module(module)
        found = compiler.compile_kernel(module, "float64").twice
        assert found.signatures != []
        assert found(21.0) == 42.0
        return found

    return compiled


def said(caplog) -> list[str]:
    lines = [record.message for record in caplog.records if record.name == "solvers"]
    caplog.clear()
    return lines


def test_a_part_is_translated_with_its_kernel_alone(tiny):
    """Its own machine code, which nothing would call, took a fifth of the time to compile."""
    (kernel,) = tiny().overloads.values()
    (part,) = compiler._globals["tiny"]["double"].overloads.values()
    engine = kernel.library._codegen._engine
    assert engine.is_symbol_defined(kernel.fndesc.mangled_name)
    assert not engine.is_symbol_defined(part.fndesc.mangled_name)


@pytest.mark.parametrize("damage", ["index", "data"])
def test_a_useless_cache_is_done_without(tiny, tmp_path, caplog, damage):
    """Garbage in the cache: one line in the log, and an answer."""
    tiny()
    assert said(caplog) == []
    assert tiny().stats.cache_hits
    files = list((tmp_path / "cache").rglob("*.nbi" if damage == "index" else "*.nbc"))
    assert files
    for file in files:
        file.write_bytes(b"garbage")
    assert not tiny().stats.cache_hits
    (line,) = said(caplog)
    assert line.startswith("the cache of compiled code did not serve twice: ")
    if damage == "index":
        assert tiny().stats.cache_hits  # mended
        assert said(caplog) == []


def test_a_cache_whose_folder_is_a_file_is_done_without(tiny, tmp_path, caplog):
    (tmp_path / "cache").write_text("not a folder")
    tiny()
    assert said(caplog) == []  # numba itself turns to the next place


def test_a_cache_that_cannot_be_written(tiny, monkeypatch, caplog):
    """No place for the machine code at all: compiled in memory, one line in the log."""
    from numba.core import caching

    class Full(caching.UserProvidedCacheLocator):
        def ensure_cache_path(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [Full])
    tiny()
    (line,) = said(caplog)
    assert line.startswith("twice is compiled anew in every process: ")


def test_a_disk_that_fills_up(tiny, monkeypatch, caplog):
    """The machine code cannot be saved: it is used all the same."""
    from numba.core import caching

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", full)
    tiny()
    (line,) = said(caplog)
    assert "No space left on device" in line


def both(name: str, precision: str = "float64") -> tuple[Any, Any]:
    """A kernel's functions as Python runs them, and compiled."""
    compiled = load(name, precision=precision)
    assert compiled.compiled
    return loader._interpreted(name), compiled


def alike(first: object, second: object) -> None:
    """The same numbers to the bit, tuples and dicts included; NaN nowhere."""
    if isinstance(first, tuple | list):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            alike(one, other)
    else:
        assert np.asarray(first).dtype.kind == np.asarray(second).dtype.kind or np.ndim(first) == 0
        np.testing.assert_array_equal(first, second)


def run_both(name: str, function: str, arguments: Callable[[], list], precision: str = "float64") -> tuple[list, list]:
    """Call a kernel either way on fresh arguments: all of them afterwards, and what it returned."""
    found = []
    for kernel in both(name, precision):
        given = arguments()
        answer = getattr(kernel, function)(*given)
        found.append(([each for each in given if isinstance(each, np.ndarray | tuple)], answer))
    alike(*found)
    return found[0]


def random_problem(n: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 3, (n, 2)) + 0.2 * rng.random((n, 2))
    return np.linalg.norm(points[:, None] - points, axis=2) / 2, rng.random(n)


@pytest.mark.parametrize(("n", "m"), [(12, 2), (20, 7), (30, 29)])
def test_preferences(n, m):
    q, linear = random_problem(n, m, n)
    rank = 2 * (m - 1) / (n - 2) * q.sum(axis=1) + linear
    _, found = run_both("preference", "preferences", lambda: [q, linear, m, rank, 1e-9])
    assert found.any()


@pytest.mark.parametrize(("n", "m"), [(12, 2), (20, 7), (30, 9)])
def test_multipliers_of_the_level_1_rlt(n, m):
    rng = np.random.default_rng(n)
    upper = np.triu(rng.integers(0, 2**20, (n, n)), 1)
    linear = rng.integers(-(2**20), 2**20, n)

    def arguments():
        partners, values = np.zeros((n, m - 1), np.int64), np.zeros(n, np.int64)
        return [upper + upper.T, linear, partners, np.zeros((n, n), np.bool_), values]

    found, _ = run_both("rlt", "appraise", arguments)
    others = [np.zeros(m, np.int64), 0, 2**40, 0.1, 20, 50, np.full(3, 2**60)]
    after, _ = run_both(
        "rlt",
        "descend",
        lambda: [*(each.copy() for each in found), *(o.copy() if isinstance(o, np.ndarray) else o for o in others)],
    )
    assert after[-1][0] < np.sort(found[-1])[-m:].sum()


def test_shares_of_a_raised_objective():
    rng = np.random.default_rng(0)
    n = 15
    quadratic = rng.normal(size=(n, n))
    quadratic += quadratic.T
    prices, is_core = rng.normal(size=n), rng.random(n) < 0.5
    found, _ = run_both("rlt", "divide", lambda: [quadratic, prices, is_core, 2.0**30, np.zeros((n, n), np.int64)])
    pairs = 2 * np.ceil(quadratic * 2.0**30).astype(np.int64)
    np.fill_diagonal(pairs, 0)
    assert np.array_equal(found[-1] + found[-1].T, pairs)


@pytest.mark.parametrize("sum_of_weights", [1, 3])
def test_weights_in_a_core(sum_of_weights):
    rng = np.random.default_rng(sum_of_weights)
    root = rng.normal(size=(8, 8))
    slack, start = root @ root.T, np.full((5, 8), sum_of_weights / 8)
    worth = rng.normal(size=(5, 8))
    found, _ = run_both(
        "ascent", "climb", lambda: [slack, -1.0, 0.0, start.copy(), worth - 2 * start @ slack, 4000, 1e-9, 0.0]
    )
    weights, gradients = found[-2:]
    assert weights.sum(axis=1) == pytest.approx(sum_of_weights)
    assert weights.min() >= 0
    assert weights.max() <= 1
    assert gradients == pytest.approx(worth - 2 * weights @ slack)
    for gradient, y in zip(gradients, weights, strict=True):  # no swap is worth while
        assert gradient[y < 1 - 1e-9].max() <= gradient[y > 1e-9].min() + 1e-6


@pytest.mark.parametrize("count", [5, 90])
def test_schur_complement(count):
    rng = np.random.default_rng(count)
    n = 20
    outer, inner = (a @ a.T for a in rng.random((2, n, n)))
    i, j = rng.integers(0, n, (2, count))
    a, b = rng.integers(-1, 2, (2, count)).astype(float)
    run_both("schur", "assemble", lambda: [outer, inner, i, j, a, b])


@pytest.mark.parametrize("most", [200, 10**9])
def test_conditioning(most):
    rng = np.random.default_rng(0)
    n, m = 9, 4
    q, linear = random_problem(n, m, 1)
    curved = q - (np.linalg.eigvalsh(q)[-1] + 0.1) * np.eye(n)
    lifted, inverse = linear - curved.diagonal(), np.linalg.inv(1.0 - curved)
    inverse -= np.outer(inverse.sum(axis=0), inverse.sum(axis=0)) / inverse.sum()
    inverse = (inverse + inverse.T) / 2
    centre, target = m / n + inverse @ (lifted + 2 * m / n * curved.sum(axis=1)) / 2, rng.random()
    order = dominance(q, 3 * linear, m)
    assert len(order.pairs)
    lists = Order(order.above_start, order.above, order.below_start, order.below)

    def arguments():
        scratch = (np.zeros(n, dtype=np.int8), np.zeros(n + 1, dtype=np.int64), np.zeros(500))
        form = (curved, curved, lifted, m, 1e-12, 1e-15, lists)
        return [*form, inverse.copy(), centre.copy(), target, most, *scratch]

    run_both("conditioning", "explore", arguments)


@pytest.mark.parametrize("seed", range(4))
def test_tree(seed):
    """From the same root the same nodes, in one call or in many; and the best value."""
    n, m = 14, 5
    q, linear = random_problem(n, m, seed)
    top = np.linalg.eigvalsh(q)[-1]
    curved, lifted = q - top * np.eye(n), linear + top
    order = dominance(q, linear, m)
    lists = Order(order.above_start, order.above, order.below_start, order.below)
    form = Form(curved, curved, lifted, m, 1e-12, np.ones(n))
    ends = []
    for kernel, budget in itertools.product(both("tree"), (10**9, 60)):
        incumbent, count, total, done = -np.inf, 1, 0, 0
        stack = Stack.empty(n)
        stack.points[0], stack.bounds[0] = m / n, np.inf
        best, outcomes = np.zeros(n, dtype=np.int8), np.zeros(6, dtype=np.int64)
        while count:
            goal = Goal(incumbent, 1e-9, 0.2, budget)
            nodes, work, count, incumbent = kernel.explore(
                form, lists, None, stack, count, goal, best, Workspace.empty(n), None, Log.empty(0, n), outcomes
            )
            total, done = total + nodes, done + work
        ends.append((incumbent, total, done, best, stack.points.copy(), stack.bounds.copy()))
        assert total > 1
        assert outcomes.sum() == total
    for end in ends[1:]:
        alike(ends[0], end)
    problem = DispersionProblem(q - np.diag(q.diagonal()), -linear, size=m)
    assert incumbent == pytest.approx(solve(problem, "brute-force").objective, rel=0, abs=1e-8)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("n", "m"), [(7, 2), (40, 8), (30, 25)])
def test_swaps(n, m, precision):
    """Tabu search with restarts, annealing, and first-order steps."""
    rng = np.random.default_rng(n)
    q, linear = random_problem(n, m, 1)
    h = q.astype(precision)
    h.setflags(write=False)
    order = rng.permutation(n)

    def search(rows: tuple | None) -> list:
        arrays = (order.copy(), order.copy(), order.copy(), np.full(2, -np.inf), np.zeros(n, int), np.zeros(3, int))
        state = np.array([12345], dtype=np.uint64)
        return [h, 0.7, linear, m, *arrays, 400, 30, 1e-13, state, rows, np.array([1.0, 0.0])]

    def cool(rows: tuple | None) -> list:
        state = np.array([99], dtype=np.uint64)
        return [h, 0.7, linear, m, order.copy(), -np.inf, order.copy(), 300, 0.3, 0.01, state, rows]

    # With rows that no selection misses, the search is the same.
    start, ids, ones = np.arange(n + 1), np.zeros(n, dtype=np.int64), np.ones(n)
    loose = (start, ids, ones, np.array([-np.inf]), np.array([float(n)]), np.ones(n, dtype=np.int64))
    ends = []
    for kernel, rows in (("swaps", None), ("swaps_with_rows", loose)):
        arguments, _ = run_both(kernel, "tabu", partial(search, rows), precision)
        assert arguments[7][0] == 400  # moves made
        ends.append((arguments[4][:m], arguments[5], run_both(kernel, "anneal", partial(cool, rows), precision)))
    np.testing.assert_array_equal(np.sort(ends[0][0]), np.sort(ends[1][0]))
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-12)
    y = np.full(n, m / n)
    g = linear + 2 * (0.4 * h.astype(float) @ y - 0.9 * y)
    run_both("ascent", "climb", lambda: [h, 0.4, 0.9, y[None].copy(), g[None].copy(), 200, 1e-9, 0.0], precision)


def test_points():
    rng = np.random.default_rng(4)
    coordinates, centres, weights = rng.random((3, 700)), rng.random((3, 5)), rng.random(5)
    coordinates.setflags(write=False)
    run_both("points", "add_distances", lambda: [coordinates, centres, weights, 3, 650, np.zeros(700)])
    run_both("points", "fill_distances", lambda: [np.ascontiguousarray(coordinates[:, :90]), np.zeros((90, 90))])
    h, _ = random_problem(12, 4, 2)
    h.setflags(write=False)
    y = np.repeat([[0.5, 0.25]], 6, axis=1)
    found, _ = run_both("ascent", "climb", lambda: [h, 0.2, 0.0, y.copy(), 0.4 * y @ h, 100, 1e-9, 2.0**-30])
    moved = found[1]
    assert moved.sum() == y.sum()
    assert not np.array_equal(moved, y)
    assert np.array_equal(moved, np.round(moved * 2.0**30) / 2.0**30)


COLD = """
import sys
import numpy as np
from solvers import solve
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion.kernels import loader

def told(name, problem, method, **options):
    s = solve(problem, method, seed=3, **options)
    numbers = [value for value in (s.objective, s.bound) if value is not None]
    trace = [(o, b) for _, o, b in s.trace]
    print(name, method, s.selected.tolist(), [float(value).hex() for value in numbers], s.nodes, s.status,
          s.details.get("iterations"), s.details.get("nodes"), len(trace), repr(trace))

rng = np.random.default_rng(0)
H = np.linalg.norm((p := rng.random((40, 3)))[:, None] - p, axis=2)
readme = DispersionProblem(distances=H, costs=rng.random(40), size=8, weight=0.1)
"""

SMALL = """
told("readme", readme, "auto")
told("readme", readme, "branch-and-bound", moves=200)
told("readme", readme, "tabu", moves=300)
print("compiled", len(loader._loaded), file=sys.stderr)
"""

LARGE = """
for seed in range(2):
    rng = np.random.default_rng(seed)
    h = np.triu(rng.random((45, 45)), 1)
    told("random", DispersionProblem(h + h.T, np.zeros(45), size=9, weight=0.5), "auto")
    h = np.triu(rng.random((36, 36), dtype=np.float32), 1)
    single = DispersionProblem(h + h.T, rng.random(36), size=7, weight=0.5)
    for method, options in (("branch-and-bound", {}), ("dnn", {}), ("sdp", {}), ("tabu", {"moves": 20000}),
                            ("memetic", {"generations": 40}), ("annealing", {"moves": 20000})):
        told("single", single, method, **options)
angle = 2 * np.pi * rng.random(60)
ring = np.column_stack([np.cos(angle), np.sin(angle)])
told("ring", DispersionProblem(np.linalg.norm(ring[:, None] - ring, axis=2), rng.random(60), size=12), "auto")
told("points", PointDispersionProblem(rng.random((400, 2)), rng.random(400), size=20), "auto")
h = np.triu(rng.random((12, 12)), 1)
kinds = KindDispersionProblem(h + h.T, rng.integers(0, 12, 90),
                              rng.random(90), size=15)
told("kinds", kinds, "auto", work_limit=1e9)  # nodes, and no clock, between two bounds of the trace
told("kinds", kinds, "tabu")
"""


@pytest.mark.thorough
def test_a_small_problem_does_not_compile_and_is_solved_alike(tmp_path):
    """By Python alone from an empty cache, twice, and with everything compiled."""
    script = COLD + SMALL
    first, second = (run(script, tmp_path / place) for place in ("first", "second"))
    compiled = "from solvers.dispersion.kernels import loader\nloader._INTERPRETED = 0\n"
    third = subprocess.run(
        [sys.executable, "-c", compiled + script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert first.stdout.count("\n") == 3, first.stderr
    assert first.stdout == second.stdout == third.stdout
    assert first.stderr == second.stderr == "compiled 0\n"
    assert int(third.stderr.splitlines()[-1].split()[1]) >= 4
    assert not list(tmp_path.rglob("*.nbi"))


@pytest.mark.thorough
def test_cold_twice_and_warm_are_the_same_search(tmp_path):
    """Decisions, bounds, nodes, iterations and traces: the engine shows nowhere."""
    script = COLD + SMALL.replace("print(", "0 and print(") + LARGE
    cold = run(script, tmp_path / "first")
    again = run(script, tmp_path / "second")
    warm = run(script, tmp_path / "second")
    assert cold.stdout.count("\n") == 21, cold.stderr
    assert cold.stdout == again.stdout == warm.stdout


@pytest.mark.thorough
def test_a_heuristic_searches_where_nothing_is_compiled(tmp_path):
    """The limit is for moves: what is compiled meanwhile does not count, and the answer says what it took."""
    script = COLD + (
        "rng = np.random.default_rng(7)\n"
        "h = np.triu(rng.random((500, 500)), 1)\n"
        "problem = DispersionProblem(h + h.T, np.zeros(500), size=60, weight=0.5)\n"
        "s, start = solve(problem, 'tabu', time_limit=3.0), solve(problem, 'local-search')\n"
        "print(s.objective > start.objective, [note for note in s.details['notes'] if 'do not count' in note] != [])\n"
    )
    assert run(script, tmp_path / "cache").stdout == "True True\n"


def test_a_kernel_that_cannot_be_compiled_is_run_by_python(monkeypatch, caplog):
    def broken(module, precision):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(loader, "compile_kernel", broken)
    monkeypatch.setattr(loader, "_loaded", {})
    expected = solve(small := DispersionProblem(*random_problem(12, 4, 1), size=4), "tabu", moves=50)
    monkeypatch.undo()
    assert "cannot be compiled and is run by Python" in caplog.text
    np.testing.assert_array_equal(solve(small, "tabu", moves=50).x, expected.x)


def test_an_interrupt_does_not_wait_for_a_compilation(monkeypatch, interruptible):
    """Ctrl-C comes at once, what is compiled is compiled to its end, and who asks again waits for it."""
    begun, released, times = threading.Event(), threading.Event(), []

    def slowly(name, precision):
        times.append(threading.current_thread())
        begun.set()
        assert released.wait(HANG)
        return "compiled"

    def interrupt():
        assert begun.wait(HANG)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loader, "_compiled", slowly)
    monkeypatch.setattr(loader, "_loaded", {})
    run = Run(DispersionProblem(*random_problem(6, 2, 1), size=2), "mine", 5.0, 0)
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        loader.load("schur", run)
    assert not loader.is_loaded("schur")
    assert times[0].daemon
    released.set()
    assert loader.load("schur", run) == "compiled"
    assert len(times) == 1
    assert not loader._pending


def test_every_kernel_is_registered_once():
    assert len(set(registered())) == len(registered())
    assert {"tree", "preference", "schur", "swaps", "swaps_with_rows", "ascent"} <= {name for name, _ in registered()}


FORCED = (
    "import sys, logging\n"
    "import solvers\n"
    "from solvers.dispersion.kernels import load\n"
    "{first}\n"
    "load('schur'); load('schur'){then}\n"
)
MORE = "; load('ascent'); load('ascent', precision='float32')"
LINE = (
    "compiling {} once on this machine, which counts against no time limit; 'fedselect warm-up' compiles all kernels "
    "beforehand"
)


@pytest.mark.parametrize(("then", "names"), few_of([("", ["schur"]), (MORE, ["schur", "ascent"])], 1))
def test_a_line_says_that_a_kernel_is_being_compiled(tmp_path, then, names):
    cold, warm = (run(FORCED.format(first="", then=then), tmp_path / "cache") for _ in range(2))
    assert cold.stderr.splitlines() == [f"solvers: {LINE.format(name)}" for name in names]
    assert warm.stderr == ""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("first", "lines"),
    [
        ("solvers.quiet()", []),
        ("solvers.quiet(); solvers.quiet(False)", [f"solvers: {LINE.format(name)}" for name in ("schur", "ascent")]),
        (
            "logging.basicConfig(level=logging.INFO, format='%(name)s %(message)s')",
            [f"solvers {LINE.format(name)}" for name in ("schur", "ascent")],
        ),
        ("sys.stderr = None", []),
    ],
)
def test_the_line_is_silenced_or_logged(tmp_path, first, lines):
    assert run(FORCED.format(first=first, then=MORE), tmp_path / "cache").stderr.splitlines() == lines


def test_options_of_numba_compare_as_before():
    """Quickly inside the block, with the same answers and hashes, and by its own comparison behind it."""
    from numba.core.compiler import Flags
    from numba.core.targetconfig import TargetConfig

    def made(**options):
        flags = Flags()
        for name, value in options.items():
            setattr(flags, name, value)
        return flags

    every = [made(), made(nrt=False), made(nrt=True), made(nrt=True), made(nrt=True, boundscheck=True)]
    own = TargetConfig.__eq__, TargetConfig.__hash__
    before = [[a == b for b in every] for a in every], [hash(a) for a in every]
    with compiler._comparing_options_quickly():
        assert TargetConfig.__eq__ is not own[0]
        assert ([[a == b for b in every] for a in every], [hash(a) for a in every]) == before
        assert made() != 3
    assert (TargetConfig.__eq__, TargetConfig.__hash__) == own
    assert before[0][0][1]  # one says what the other leaves to its default
    assert not before[0][0][2]
