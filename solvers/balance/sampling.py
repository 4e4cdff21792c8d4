"""Sampling of Fed-CBS: clients one after the other, the more likely the better they balance those before."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.balance.problem import BalanceProblem
from solvers.checks import vector
from solvers.options import Above

__all__ = ["draw_fed_cbs"]

#: Imbalance below which a union counts as balanced: its inverse stays a number, and ties are drawn evenly.
_BALANCED = 1e-9


def draw_fed_cbs(
    problem: BalanceProblem,
    rng: np.random.Generator,
    *,
    exponent: float | None = None,
    exploration: float = 0.0,
    turns: ArrayLike | None = None,
) -> NDArray[np.int64]:
    r"""Draw clients one after the other, each with a probability proportional to :math:`1 / \mathrm{QCID}^{\beta}`.

    Client i is drawn in place k, after the k − 1 of M, in proportion to :math:`\mathrm{QCID}(M \cup i)^{-\beta_k}`;
    for the first place :math:`\lambda / T_i` is added, which explores clients that were seldom chosen (Zhang et al.,
    ICML 2023).

    Parameters
    ----------
    problem : BalanceProblem
        The clients, and how many to draw.
    rng : numpy.random.Generator
        Source of randomness.
    exponent : float, optional
        β of every place; β_k = k by default.
    exploration : float
        λ ≥ 0; 0 draws by balance alone.
    turns : (n,) array-like, optional
        T, how often each client was chosen so far, at least 1; ones by default.

    Returns
    -------
    ndarray of int
        Ids in the order in which they were drawn.
    """
    before = np.ones(problem.n) if turns is None else vector(turns, "turns", Above(0), n=problem.n)
    free = np.ones(problem.n, dtype=bool)
    sums, total = np.zeros(problem.classes, dtype=np.int64), 0
    chosen: list[int] = []
    for place in range(1, problem.size + 1):
        imbalance = problem.imbalances(sums + problem.deviations, total + problem.samples)
        power = float(place) if exponent is None else exponent
        logs = -power * np.log(np.maximum(imbalance, _BALANCED))
        weights = np.where(free, np.exp(np.minimum(logs - logs[free].max(), 0.0)), 0.0)
        if place == 1 and exploration > 0:
            weights += np.where(free, exploration / before * np.exp(-logs[free].max()), 0.0)
        k = int(rng.choice(problem.n, p=weights / weights.sum()))
        chosen.append(k)
        free[k] = False
        sums, total = sums + problem.deviations[k], total + int(problem.samples[k])
    return np.array(chosen, dtype=np.int64)
