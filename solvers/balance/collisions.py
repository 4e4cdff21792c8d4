"""Exactly balanced unions: ten clients whose label counts sum to what is missing, found by meeting in the middle."""

from __future__ import annotations

from math import exp, lgamma, log, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.balance.problem import BalanceProblem
from solvers.dispersion.kernels import load
from solvers.problem import OPTIMALITY_GAP
from solvers.run import Run
from solvers.subsets import from_clients

#: Clients that are exchanged at a time: four and four and two.
_TEN = 10

#: Ways to part ten clients into two fours and a pair, where the fours can be told apart.
_PARTINGS = 3150

#: Fours in a list, 16 bytes each; and sums looked up, some 5e7 a second, beyond which the search is not begun.
_LONGEST, _DEAREST = 4_000_000, 1e9

#: Pairs after which the clock is looked at: a second's worth or two with the longest lists.
_AT_ONCE = 16

#: Searches at most, of which each is expected to meet a solution: counts that share a factor may have none.
_TRIES = 8

#: Numbers of clients, those nearest to what is missing, among which the search is tried.
_POOLS = (100, 150, 200, 300, 450, 700, 1000)


def expected_solutions(vectors: NDArray[np.int64], need: NDArray[np.int64]) -> float:
    """Estimate the logarithm of how many sets of ten vectors sum to ``need``: a normal density on whole numbers.

    Parameters
    ----------
    vectors : (k, d) ndarray of int
        One vector per client.
    need : (d,) ndarray of int
        What ten of them shall sum to.
    """
    k, d = vectors.shape
    sets = lgamma(k + 1) - lgamma(_TEN + 1) - lgamma(k - _TEN + 1)
    covariance = _TEN * np.cov(vectors.T).reshape(d, d) + np.eye(d) / 12
    off = need - _TEN * vectors.mean(axis=0)
    return sets - 0.5 * float(off @ np.linalg.solve(covariance, off) + np.linalg.slogdet(2 * pi * covariance)[1])


def balance_exactly(problem: BalanceProblem, run: Run) -> None:
    r"""Replace ten clients by ten that make the union as balanced as whole counts can be, or nearly enough.

    Ten clients are two fours and a pair. Of all fours those are listed whose residue, a random linear function of the
    counts, is one of two drawn numbers; a pair of the residue that is left joins a four of either list where their
    64-bit hashes, linear too, add up. It is Schroeppel and Shamir's meeting in the middle with the modulus of
    Howgrave-Graham and Joux. Whether it pays is estimated before.

    Parameters
    ----------
    problem : BalanceProblem
        Where there are not ten clients to select and ten to leave out, nothing is done.
    run : Run
        Clock, randomness and incumbent.
    """
    if problem.size < _TEN or problem.n - problem.size < _TEN or problem.classes < 2:
        return
    rng = run.rng
    for _ in range(_TRIES):
        if run.proved or run.expired:
            return
        assert run.x is not None
        kept = rng.permutation(np.flatnonzero(run.x))[_TEN:]
        surplus = np.zeros(problem.classes, dtype=np.int64)  # what the least imbalanced counts have above their floor
        if problem.has_equal_sizes:
            surplus[rng.choice(problem.classes, problem.size * int(problem.samples[0]) % problem.classes, False)] = 1
        # Equal differences of classes are equal classes, whatever the number of samples is.
        differences = np.diff(problem.label_counts // problem.unit, axis=1)
        if problem.unit > 1 and surplus.any():
            return
        need = np.diff(surplus) - differences[kept].sum(axis=0)
        free = np.setdiff1d(np.arange(problem.n), kept)
        far = ((differences[free] - need / _TEN) ** 2).sum(axis=1)
        free = free[np.argsort(far, kind="stable")]
        pools = [k for k in (*_POOLS, free.size) if k <= min(free.size, _POOLS[-1])]
        logs = {k: expected_solutions(differences[free[:k]], need) + log(_PARTINGS) for k in pools}
        k = min(logs, key=lambda k: _lookups(k, logs[k]))
        near = _near(problem, kept)
        if near is not None and _lookups(near.free.size, near.logarithm) < _lookups(k, logs[k]):
            free, vectors, need, logarithm = near
        else:
            free, vectors, logarithm = free[:k], differences[free[:k]], logs[k]
        if _lookups(free.size, logarithm) > log(_DEAREST):
            return
        found = _tens(vectors, need, logarithm, run)
        if found.size:
            sums = problem.deviations[free[found]].sum(axis=1) + problem.deviations[kept].sum(axis=0)
            totals = problem.samples[free[found]].sum(axis=1) + problem.samples[kept].sum()
            best = found[int(problem.imbalances(sums, totals).argmin())]
            run.offer(from_clients(np.concatenate([kept, free[best]]), problem.n))


def _lookups(k: int, logarithm: float) -> float:
    """Logarithm of the pairs of a four and a pair, of k clients, that are looked at for each solution that is met."""
    return 6 * log(k) - log(48) - min(logarithm, 700.0)


class _Plan(NamedTuple):
    """Clients, one vector for each, what ten of them shall sum to, and the logarithm of the solutions to meet."""

    free: NDArray[np.int64]
    vectors: NDArray[np.int64]
    need: NDArray[np.int64]
    logarithm: float


def _near(problem: BalanceProblem, kept: NDArray[np.int64]) -> _Plan | None:
    """Plan a search for ten clients that balance the others nearly enough to count as optimal; of equal sizes.

    Counts are rounded to multiples of a unit, so that many more tens have the sum that is wanted; what rounding moves
    their union by is a normal vector, and the share of them that it leaves in the ball of balanced unions is small.
    """
    total = problem.size * int(problem.samples[0])
    radius = sqrt(OPTIMALITY_GAP) * total
    if not problem.has_equal_sizes or problem.classes < 3 or radius < 1:
        return None
    counts, rest = problem.label_counts, problem.classes - 1  # the last class is what the others leave
    missing = total / problem.classes - counts[kept].sum(axis=0)
    free = np.setdiff1d(np.arange(problem.n), kept)
    free = free[np.argsort(((counts[free] - missing / _TEN) ** 2).sum(axis=1), kind="stable")]
    ball = rest / 2 * log(pi) - lgamma(rest / 2 + 1) + rest * log(radius) - log(problem.classes) / 2
    plans = []
    for k in (k for k in (*_POOLS, free.size) if k <= min(free.size, _POOLS[-1])):
        own = counts[free[:k], :rest]
        for unit in _UNITS:
            vectors = np.rint(own / unit).astype(np.int64)
            moved = own - unit * vectors
            need = np.rint((missing[:rest] - _TEN * moved.mean(axis=0)) / unit).astype(np.int64)
            spread = _TEN * np.cov(moved.T).reshape(rest, rest) + np.eye(rest) / 12
            share = min(0.0, ball - float(np.linalg.slogdet(2 * pi * spread)[1]) / 2)
            plans.append(_Plan(free[:k], vectors, need, expected_solutions(vectors, need) + log(_PARTINGS) + share))
    return min(plans, key=lambda plan: _lookups(plan.free.size, plan.logarithm))


#: Units that counts are rounded to.
_UNITS = (2, 3, 4, 6, 9)

#: Tens of the sum that is wanted, at most.
_MOST_TENS = 20_000


def _tens(vectors: NDArray[np.int64], need: NDArray[np.int64], logarithm: float, run: Run) -> NDArray[np.int64]:
    """Look for tens of vectors of this sum among the fours of two random residues, (tens, 10).

    ``logarithm``: of the partings that are there to be met.
    """
    none = np.zeros((0, _TEN), dtype=np.int64)
    k, rng = len(vectors), run.rng
    kernel = load("collisions", run, steps=None)
    fours = k**4 / 24
    classes = max(1, int(max(fours / _LONGEST, exp(min(logarithm / 2, 30.0)))))
    classes = min(classes, k * k // 4) | 1
    multipliers = rng.integers(1 << 62, size=len(need)).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = (vectors.astype(np.uint64) * multipliers).sum(axis=1, dtype=np.uint64)
    wanted = (need.astype(np.uint64) * multipliers).sum(dtype=np.uint64)
    factors = rng.integers(classes, size=len(need))
    residues = vectors % classes @ factors % classes
    lower, upper = np.triu_indices(k, 1)
    sums, residue = hashes[lower] + hashes[upper], (residues[lower] + residues[upper]) % classes
    order = np.argsort(residue, kind="stable")
    ends = np.searchsorted(residue[order], np.arange(classes + 1))
    one, two = rng.integers(classes, size=2)
    lists = []
    for drawn in (one, two):
        length = int(2 * fours / classes) + 1000
        listed = (np.empty(length, np.uint64), np.empty(length, np.int32), np.empty(length, np.int32))
        run.spend(10 * sums.size + length)
        count = kernel.join(sums, lower, upper, order, ends, int(drawn), *listed)
        lists.append(tuple(array[:count].copy() for array in listed))
        if run.expired:
            return none
    left, right = lists
    rest = int(need % classes @ factors - one - two) % classes
    pairs = order[ends[rest] : ends[rest + 1]]
    table = np.zeros((2, 1 << 24), dtype=np.uint8)
    missing = wanted - right[0]
    kernel.mark(missing, table)
    four, pair, count = np.empty(1 << 20, np.int32), np.empty(1 << 20, np.int32), 0
    for start in range(0, pairs.size, _AT_ONCE):
        run.spend(left[0].size * min(_AT_ONCE, pairs.size - start))
        more = kernel.meet(left[0], sums[pairs[start : start + _AT_ONCE]], table, four[count:], pair[count:])
        pair[count : count + more] += start
        count += more
        if run.expired:
            break
    totals = left[0][four[:count]] + sums[pairs[pair[:count]]]
    place = np.argsort(missing)
    at = np.searchsorted(missing, totals, sorter=place)
    at = place[np.minimum(at, place.size - 1)] if place.size else at[:0]
    tens = []
    for c in np.flatnonzero(missing[at] == totals[: at.size])[:_MOST_TENS].tolist():
        parts = [left[1][four[c]], left[2][four[c]], right[1][at[c]], right[2][at[c]], pairs[pair[c]]]
        ten = np.unique(np.concatenate([lower[parts], upper[parts]]))
        if ten.size == _TEN and (vectors[ten].sum(axis=0) == need).all():
            tens.append(ten)
    return np.array(tens) if tens else none
