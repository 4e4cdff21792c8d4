"""Random problems with side constraints of every kind, and a plain reading of the statement to test them against."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem
from solvers.errors import InvalidProblem

#: Part of a budget's limit by which a selection may exceed it.
OVER = Fraction(1, 10**9)


def draw_constraints(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    """Arguments of a problem with some of the constraints; they may contradict each other."""
    stated: dict[str, Any] = {}
    if rng.random() < 0.3:
        stated["include"] = rng.choice(n, size=rng.integers(0, min(m, 2) + 1), replace=False)
    if rng.random() < 0.3:
        stated["exclude"] = rng.choice(n, size=rng.integers(0, 3), replace=False)
    if rng.random() < 0.6:
        stated["quotas"] = [_quota(rng, group) for group in _groups(rng, n) if group.size]
    if rng.random() < 0.6:
        uses = [rng.integers(0, 10, n) / 10 if rng.random() < 0.5 else rng.random(n) for _ in range(rng.integers(1, 3))]
        stated["budgets"] = [
            Budget(use, float(use.mean() * m * rng.uniform(0.5, 1.2)), f"b{k}") for k, use in enumerate(uses)
        ]
    if rng.random() < 0.5:
        sizes = rng.integers(2, 4, size=rng.integers(1, 5))
        stated["conflicts"] = [rng.choice(n, size=min(size, n), replace=False) for size in sizes]
    return stated


def _groups(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """A partition, a nested family, or groups that overlap."""
    kind, order, cut = rng.integers(3), rng.permutation(n), int(rng.integers(1, n))
    if kind == 0:
        label = rng.integers(0, 3, n)
        return [np.flatnonzero(label == k) for k in range(3)]
    if kind == 1:
        return [order[:cut], order[: max(1, cut // 2)], order[cut:]]
    return [rng.choice(n, size=rng.integers(1, n), replace=False) for _ in range(3)]


def _quota(rng: np.random.Generator, group: np.ndarray) -> Quota:
    least = int(rng.integers(0, min(3, group.size) + 1)) if rng.random() < 0.5 else 0
    return Quota(group, least, None if rng.random() < 0.4 else least + int(rng.integers(0, 3)))


def degenerate_constraints(rng: np.random.Generator, ids: np.ndarray, m: int) -> dict[str, Any]:
    """Draw arguments on their edges, for clients of these ids.

    Uses of 0, tiny and huge; limits that a selection meets exactly; groups that are nested, overlap, or stand twice;
    conflicts among all clients; fixed clients that leave one selection, or none.
    """
    stated: dict[str, Any] = {}
    n = ids.size
    if rng.random() < 0.25:
        order, ones = rng.permutation(ids), int(rng.choice([0, 1, m, m - 1]))
        left_out = int(rng.choice([0, 1, n - m, n - ones]))
        stated = {"include": order[:ones], "exclude": order[ones : min(ones + left_out, n)]}
    if rng.random() < 0.5:
        stated["quotas"] = _edge_quotas(rng, ids, m)
    if rng.random() < 0.65:
        stated["budgets"] = [_edge_budget(rng, n, m, f"b{k}") for k in range(rng.integers(1, 4))]
    if n > 1 and rng.random() < 0.35:
        order = rng.permutation(ids)
        cliques = [
            [order],
            [order[:2], order[-2:], order[:2]],
            [order[k : k + 2] for k in range(n - 1)],
            [order[: n // 2 + 1], order[n // 2 - 1 :]],
        ]
        stated["conflicts"] = [group for group in cliques[rng.integers(4)] if group.size > 1]
    return stated


def _edge_quotas(rng: np.random.Generator, ids: np.ndarray, m: int) -> list[Quota]:
    n = ids.size
    order, cut = rng.permutation(ids), int(rng.integers(0, n + 1))
    few = order[:cut]
    least = int(rng.integers(0, min(m, cut) + 1))
    kinds = [
        [(few, least, least), (few, least, None), (few, 0, least)],
        [(order, m, m), (few, least, m)],
        [(few, 0, 0)],
        [(few, least, 10**18), (order[max(cut - 1, 0) :], 0, max(m - least, 0))],
        [(few, 0, least), (order[: cut // 2], 0, least), (order[: cut // 2], min(least, cut // 2), None)],
        [(order[k : k + 2], 0, 1) for k in range(n)],
    ]
    return [Quota(*each, f"q{k}") for k, each in enumerate(kinds[rng.integers(len(kinds))])]


def _edge_budget(rng: np.random.Generator, n: int, m: int, name: str) -> Budget:
    uses = [
        np.zeros(n),
        rng.integers(0, 2, n).astype(float),
        rng.integers(0, 10, n) / 10,
        np.full(n, float(rng.random())),
        rng.random(n).astype(np.float32),
        rng.random(n) * 10.0 ** rng.integers(-12, 9, n),
        rng.random(n) * 2.0 ** rng.integers(0, 40, n),
        rng.lognormal(size=n),
    ]
    use = np.asarray(uses[rng.integers(len(uses))], dtype=float)
    use = use * float(rng.choice([1.0, 10.0 ** rng.integers(-88, 85)], p=[0.7, 0.3]))
    met = math.fsum(use[rng.choice(n, m, replace=False)])
    limits = [met, met, np.nextafter(met, 0.0), 0.0, met / 2, 2 * met, float(use.max()), 1e300]
    return Budget(use, float(limits[rng.integers(len(limits))]), name)


def keeps(
    stated: dict[str, Any], selection: tuple[int, ...], ids: np.ndarray | None = None, over: Fraction = OVER
) -> bool:
    """Whether a selection of places keeps the constraints on these ids, as their statement says it, exactly.

    ``over`` is the part of a budget's limit by which a sum may exceed it.
    """
    chosen = set(selection if ids is None else ids[list(selection)].tolist())
    included, excluded = ({int(k) for k in stated.get(name, ())} for name in ("include", "exclude"))
    return (
        included <= chosen
        and not excluded & chosen
        and all(
            quota.at_least
            <= len(chosen & set(quota.members))
            <= (len(chosen) if quota.at_most is None else quota.at_most)
            for quota in stated.get("quotas", ())
        )
        and all(
            sum(map(Fraction, budget.use[list(selection)].tolist())) <= Fraction(budget.limit) * (1 + over)
            for budget in stated.get("budgets", ())
        )
        and all(len(chosen & {int(k) for k in group}) < 2 for group in stated.get("conflicts", ()))
    )


def draw_case(seed: int, largest: int = 9) -> tuple[DispersionProblem | None, list[tuple[int, ...]]]:
    """A problem, or None where its construction is refused, and all selections that keep its constraints."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, largest + 1))
    m = int(rng.integers(1, n + 1))
    stated = draw_constraints(rng, n, m)
    h = rng.random((n, n))
    h = np.triu(h, 1) + np.triu(h, 1).T
    kept = [each for each in itertools.combinations(range(n), m) if keeps(stated, each)]
    try:
        return DispersionProblem(h, rng.normal(size=n), size=m, **stated), kept
    except InvalidProblem:
        return None, kept


def feasible_cases(seeds: range, largest: int = 9) -> list[tuple[DispersionProblem, list[tuple[int, ...]]]]:
    """The problems of `draw_case` that have constraints and a selection; there are some."""
    drawn = (draw_case(seed, largest) for seed in seeds)
    found = [(problem, kept) for problem, kept in drawn if problem is not None and kept and problem.is_constrained]
    assert found
    return found
