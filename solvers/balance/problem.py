"""The balance problem: clients whose samples together have every class equally often (Fed-CBS)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import frozen_array
from solvers.errors import InvalidProblem
from solvers.problem import certified
from solvers.subsets import ConstrainedProblem, checked_size

#: Samples of a class that a client may have: sums of the `BalanceProblem.deviations` of a million clients still fit
#: into 62 bits, up to a thousand classes.
_LARGEST = 10**9


@dataclass(frozen=True, eq=False)
class BalanceProblem(ConstrainedProblem):
    r"""Select ``size`` of n clients so that the classes of their samples together are as balanced as possible.

    .. math:: \min_{|S| = m} \; \mathrm{QCID}(S) = \frac{\sum_b t_b^2}{M^2} - \frac1B, \qquad
              t_b = \sum_{i \in S} a_{ib}, \quad M = \sum_b t_b

    The quadratic class-imbalance degree of Fed-CBS (Zhang et al., ICML 2023): the squared distance of the union's
    label distribution from the uniform one, between 0 and 1 − 1/B. With :math:`\beta_i = B a_i - q_i 1`, where client
    i has :math:`q_i` samples, it is :math:`\lVert \sum_S \beta_i \rVert^2 / (B M)^2`; where all clients have equally
    many samples, M is constant and it is a dispersion problem.

    Parameters
    ----------
    label_counts : (n, B) array-like of int
        Samples of each class that each client has, up to 10⁹; every client has one at least.
    size : int
        Number m of clients to select, 1 ≤ m ≤ n.
    include, exclude, quotas, budgets, conflicts, names : optional
        Side constraints, and names of the clients: see `solvers.subsets.ConstrainedProblem`.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, or it is seen that no selection keeps all constraints.

    Examples
    --------
    Figure 3 of the paper: greedy selection begins with the balanced client and takes the second one.

    >>> from solvers import solve
    >>> counts = [[5] * 6, [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]]
    >>> problem = BalanceProblem(counts, size=3)
    >>> solve(problem, "greedy").selected.tolist(), solve(problem).selected.tolist()
    ([0, 1, 2], [0, 2, 3])
    """

    label_counts: NDArray[np.int64]
    size: int

    sense: ClassVar[Literal["min"]] = "min"
    family: ClassVar[str] = "balance"

    def __post_init__(self) -> None:
        given = frozen_array(self.label_counts, "label_counts", ndim=2)
        if 0 in given.shape:
            raise InvalidProblem(f"label_counts must have a row per client and a column per class; got {given.shape}")
        counts = given.astype(np.int64)
        if (counts != given).any() or given.min() < 0 or given.max() > _LARGEST:
            raise InvalidProblem(
                f"label_counts must be whole numbers from 0 to {_LARGEST}; got {given.min():g} to {given.max():g}"
            )
        if not (some := counts.any(axis=1)).all():
            raise InvalidProblem(f"every client must have a sample; client {int(some.argmin())} has none")
        counts.setflags(write=False)
        object.__setattr__(self, "label_counts", counts)
        object.__setattr__(self, "size", checked_size(self.size, counts.shape[0]))
        self._complete_constraints(np.arange(self.n), self.size)

    @property
    def n(self) -> int:
        """Number of clients."""
        return self.label_counts.shape[0]

    @property
    def classes(self) -> int:
        """Number B of classes."""
        return self.label_counts.shape[1]

    @property
    def scale(self) -> float:
        """1, the largest sum of squared shares: an imbalance within 1e-6 of the least is called optimal."""
        return 1.0

    @cached_property
    def samples(self) -> NDArray[np.int64]:
        """Samples q of each client."""
        return self.label_counts.sum(axis=1)

    @property
    def has_equal_sizes(self) -> bool:
        """Whether all clients have equally many samples."""
        return bool((self.samples == self.samples[0]).all())

    @cached_property
    def deviations(self) -> NDArray[np.int64]:
        """β = B a − q 1, (n, B): whole, and zero where a client is balanced."""
        return self.classes * self.label_counts - self.samples[:, None]

    @cached_property
    def unit(self) -> int:
        """Greatest common divisor of all counts: QCID does not change where they are divided by it."""
        return int(np.gcd.reduce(self.label_counts.ravel()))

    @property
    def fewest_samples(self) -> int:
        """Samples of the m clients that have the fewest."""
        return int(np.sort(self.samples)[: self.size].sum())

    @property
    def most_samples(self) -> int:
        """Samples of the m clients that have the most."""
        return int(np.sort(self.samples)[-self.size :].sum())

    def objective(self, x: ArrayLike) -> float:
        """QCID of the clients selected, computed in whole numbers and rounded once; 1 − 1/B where there is none."""
        chosen = self.selected(x)
        total = int(self.samples[chosen].sum())
        if total == 0:
            return 1.0 - 1.0 / self.classes
        squares = sum(value * value for value in self.deviations[chosen].sum(axis=0).tolist())
        return squares / (self.classes * total) ** 2

    def imbalances(self, deviations: NDArray[np.int64], totals: NDArray[np.int64]) -> NDArray[np.float64]:
        """QCID of unions with these sums of `deviations` (…, B) and of samples (…), to some units of rounding."""
        shares = deviations / (self.classes * totals[..., None].astype(np.float64))
        return np.einsum("...b,...b->...", shares, shares)

    def bound(self) -> float:
        """Least QCID of whole counts that add up: positive where sizes are equal and B does not divide their sum."""
        if not self.has_equal_sizes:
            return 0.0
        total = self.size * int(self.samples[0])
        rest = total % self.classes
        return certified(Fraction(rest * (self.classes - rest), self.classes * total**2), 0, "min")
