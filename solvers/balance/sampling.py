"""Sampling of Fed-CBS: clients one after the other, the more likely the better they balance those before."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.balance.problem import BalanceProblem
from solvers.checks import number, vector
from solvers.errors import InvalidProblem
from solvers.options import Above, AtLeast

#: Imbalance below which a union counts as balanced: its inverse stays a number, and ties are drawn evenly.
_BALANCED = 1e-9


def draw_fed_cbs(
    problem: BalanceProblem,
    rng: np.random.Generator,
    *,
    exponent: float | None = None,
    bonus: ArrayLike | None = None,
) -> NDArray[np.int64]:
    r"""Draw clients one after the other, each with a probability proportional to :math:`1 / \mathrm{QCID}^{\beta}`.

    Client i is drawn in place k, after the k − 1 of M, in proportion to :math:`\mathrm{QCID}(M \cup i)^{-\beta_k}`,
    where less than 1e-9 counts as 1e-9. For the first place a bonus is added, :math:`\lambda \sqrt{3 \ln t / (2 T_i)}`
    in round t for a client chosen :math:`T_i` times, which explores clients that were seldom chosen (Zhang et al.,
    ICML 2023).

    Parameters
    ----------
    problem : BalanceProblem
        The clients, and how many to draw; without side constraints.
    rng : numpy.random.Generator
        Source of randomness.
    exponent : float, optional
        β > 0 of every place; β_k = k by default.
    bonus : (n,) array-like, optional
        What is added for the first place, at least 0; nothing by default.

    Returns
    -------
    ndarray of int
        Ids in the order in which they were drawn.

    Raises
    ------
    InvalidProblem
        When the exponent or the bonus is not as described, or the problem has side constraints.
    """
    if problem.is_constrained:
        raise InvalidProblem("Fed-CBS's draws keep no side constraints; problem.without() has none")
    if exponent is not None:
        exponent = number(exponent, "exponent", Above(0))
    added = np.zeros(problem.n) if bonus is None else vector(bonus, "bonus", AtLeast(0), n=problem.n)
    free = np.ones(problem.n, dtype=bool)
    sums, total = np.zeros(problem.classes, dtype=np.int64), 0
    chosen: list[int] = []
    for place in range(1, problem.size + 1):
        imbalance = problem.imbalances(sums + problem.deviations, total + problem.samples)
        power = float(place) if exponent is None else exponent
        logs = -power * np.log(np.maximum(imbalance, _BALANCED))
        weights = np.where(free, np.exp(np.minimum(logs - logs[free].max(), 0.0)), 0.0)
        if place == 1:
            weights += added * np.exp(-logs.max())
        k = int(rng.choice(problem.n, p=weights / weights.sum()))
        chosen.append(k)
        free[k] = False
        sums, total = sums + problem.deviations[k], total + int(problem.samples[k])
    return np.array(chosen, dtype=np.int64)
