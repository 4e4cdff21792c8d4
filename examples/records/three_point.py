"""Method ``three-point``: a bound from the averages of three clients over the problem's symmetries."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import ArrayLike, NDArray

from examples.records.averages import (
    Averages,
    averages,
    certified,
    program,
    uniform_start,
    written,
)
from examples.records.interior import iterates
from solvers.dispersion.neighbourhood import ensure_incumbent
from solvers.dispersion.prelude import one_thread, solve_trivial
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.dispersion.relaxations.uniform_shift import uniform_shift_bound
from solvers.dispersion.symmetry import closure
from solvers.registry import method
from solvers.run import Run
from solvers.solution import Stopped

#: Entries of all matrices, times unknowns: the program must fit into memory (8 bytes each, and as much again).
_LARGEST = 40_000_000

#: The same without symmetries, where more than 14 clients would take minutes.
_LARGEST_PLAIN = 2_500_000

#: Seconds of an iteration, in units of unknowns² times entries, and of the program in units of unknowns times entries.
_ITERATION, _BUILDING = 4e-10, 5e-7

#: It ends when an iteration lowers the bound by less than this part of it.
_LEAST = 1e-7

#: A certificate that is weaker than the bound by more than this share of the problem's scale is not kept.
_NEAR = 1e-6


@method(DispersionProblem, "three-point", kind="relaxation")
@one_thread
def three_point(problem: DispersionProblem, run: Run, *, symmetries: ArrayLike | None = None) -> None:
    r"""Bound symmetric problems by the averages of three clients (Schrijver 2005), with an interior-point method.

    For a selection s and a client r, the matrices :math:`s_r s s^\top` and :math:`(1 - s_r) s s^\top` are positive
    semidefinite, and so are their averages over the symmetries, whose entries depend on the orbit of three clients
    alone (`examples.records.averages`). The more symmetries, the fewer unknowns: the torus of ``tai256c`` has some
    1 500. Without symmetries it is for at most 14 clients. The relaxation is at least as strong as that of ``dnn``.
    Every iteration's bound is certified in floating point, and with ``certificate=True`` the last one's in whole
    numbers, where that proves about as much. Where the problem is too large or the time too short, the bound is that of
    a uniform shift.

    Parameters
    ----------
    symmetries : (k, n) array-like of int, optional
        Permutations of the clients (client i to ``symmetries[r][i]``) that change no distance and no cost.

    Raises
    ------
    InvalidOption
        When a permutation is none or changes the problem.
    """
    n, m = problem.n, problem.size
    group = np.arange(n)[None] if symmetries is None else closure(problem, symmetries)
    run.tighten(problem.trivial_bound())
    if solve_trivial(problem, run):
        return
    ensure_incumbent(problem, run)
    given, reason = None, ""
    largest = _LARGEST_PLAIN if symmetries is None else _LARGEST
    entries, unknowns = _entries(group), n * (n - 1) * (n - 2) // (6 * len(group))  # at least
    if not 3 <= m <= n - 3:
        reason = "it needs at least three clients to choose and three to leave out"
    elif unknowns * entries > largest:
        reason = f"the problem has too few symmetries for its size: more than {unknowns} unknowns"
    elif run.remaining < _BUILDING * unknowns * entries + 2 * _ITERATION * unknowns**2 * entries:
        reason = "the time is too short"
    else:
        given = averages(group, m)
    if given is None:
        uniform_shift_bound(problem, run)
        stopped: Stopped = "time-limit" if reason == "the time is too short" else "iterations"
        run.stop(stopped, f"no three-point bound: {reason}; the bound is that of a uniform shift")
        return
    generators = group if symmetries is None else np.asarray(symmetries, dtype=np.int64)
    _converge(problem, run, given, generators)


def _entries(group: NDArray[np.int64]) -> int:
    """Entries of the matrices' blocks, roughly: as many fewer as there are symmetries that keep the client."""
    n = group.shape[1]
    _, orbit = np.unique(group.min(axis=0), return_counts=True)
    return int((2 * (n - 1) ** 2 * orbit // len(group)).sum())


def _converge(problem: DispersionProblem, run: Run, given: Averages, generators: NDArray[np.int64]) -> None:
    scaled = ScaledProblem.of(problem)
    with run.building():
        relaxation, bases = program(scaled, given)
    run.details["blocks"] = sorted((len(a[0]) for a in relaxation.blocks), reverse=True)
    best = np.inf
    began = time.perf_counter()
    for iterations, point in enumerate(iterates(relaxation, uniform_start(given)), 1):
        value = certified(scaled, given, relaxation, bases, point)
        run.tighten(scaled.certified(value))
        run.details["iterations"] = iterations
        took, began = time.perf_counter() - began, time.perf_counter()
        if run.proved or run.remaining < 1.2 * took or 0 <= best - value < _LEAST * abs(value):
            break
        best = min(best, value)
    if run.recording:
        found = written(problem, generators, given, bases, point)
        run.tighten(found.bound)
        # Where another bound had proved the incumbent, the multipliers of the first iterations prove far less.
        if run.bound is not None and found.bound <= run.bound + _NEAR * problem.scale:
            run.recorded = found
