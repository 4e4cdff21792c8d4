"""The deadline problem: whose uploads, one after the other over one uplink, end in time (FedCS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, isfinite
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import number, vector
from solvers.errors import InvalidProblem
from solvers.options import AtLeast
from solvers.subsets import SubsetProblem, checked_names


class WholeTimes(NamedTuple):
    """Times as whole multiples of 2^exponent seconds: exact, so that sums of them are."""

    ready: list[int]
    upload: list[int]
    deadline: int
    exponent: int


@dataclass(frozen=True, eq=False)
class DeadlineProblem(SubsetProblem):
    r"""Select the clients, as many or as valuable as possible, whose uploads end by the deadline.

    .. math:: \max_S \sum_{k \in S} w_k \quad \text{s.t.} \quad
              r_k + \sum_{j \in S,\; r_j \ge r_k} u_j \le D \quad \text{for all } k \in S

    Client k may begin its upload at :math:`r_k` (it has received the model and trained by then) and takes
    :math:`u_k`; the uplink carries one upload at a time. The earliest ready goes first: no order ends sooner, and
    :math:`\Theta = \max(\Theta, r_k) + u_k` after each upload is the recursion of FedCS (Nishio and Yonetani, ICC
    2019), whose Algorithm 3 is the method ``fedcs``. Read backwards from the deadline, :math:`D - r_k` are due dates:
    the problem is :math:`1 || \sum w_j U_j`, which Moore and Hodgson (1968) solve in O(n log n) where all values are
    equal, and which is NP-hard otherwise.

    Parameters
    ----------
    ready : (n,) array-like
        When each client may begin to upload, in seconds or any unit of time.
    upload : (n,) array-like
        How long each upload takes, ≥ 0, in the same unit.
    deadline : float
        When the last upload must have ended. Where nobody can meet it, nobody is selected.
    values : (n,) array-like, optional
        What each client is worth, ≥ 0; by default each counts 1.
    names : sequence of str or int
        What each client is called, as for `solvers.subsets.ConstrainedProblem`.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.

    Notes
    -----
    Times are taken as the binary numbers that they are, and their sums are exact: three uploads of 0.1 do not end by
    0.3, as 0.1 is a little more than a tenth. Whole milliseconds have no such surprises.

    Examples
    --------
    >>> from solvers import solve
    >>> problem = DeadlineProblem(ready=[0, 1, 2], upload=[4, 2, 2], deadline=6)
    >>> solution = solve(problem)
    >>> solution.selected.tolist(), problem.finish_times(solution.x).tolist()
    ([1, 2], [3.0, 5.0])
    """

    ready: NDArray[np.float64]
    upload: NDArray[np.float64]
    deadline: float
    values: NDArray[np.float64] | None = None
    names: Sequence[str | int] = ()

    sense: ClassVar[Literal["max"]] = "max"
    family: ClassVar[str] = "deadline"

    def __post_init__(self) -> None:
        ready = vector(self.ready, "ready")
        n = ready.shape[0]
        upload = vector(self.upload, "upload", AtLeast(0), n=n)
        deadline = number(self.deadline, "deadline")
        values = None if self.values is None else vector(self.values, "values", AtLeast(0), n=n)
        if values is not None and not isfinite(float(values.max()) * n):
            raise InvalidProblem(f"values up to {values.max():g} overflow; rescale them")
        longest = max(float(np.abs(ready).max()), float(upload.max()), abs(deadline))
        if not isfinite(longest * (n + 2)):
            raise InvalidProblem(f"times up to {longest:g} overflow; state them in a larger unit")
        self._freeze(ready=ready, upload=upload, deadline=deadline, values=values, names=checked_names(self.names, n))

    @property
    def n(self) -> int:
        """Number of clients."""
        return self.ready.shape[0]

    @cached_property
    def worth(self) -> NDArray[np.float64]:
        """``values``, or ones."""
        return np.ones(self.n) if self.values is None else self.values

    @cached_property
    def scale(self) -> float:
        """Sum of the values; 1 where all are 0."""
        return float(self.worth.sum()) or 1.0

    @property
    def is_uniform(self) -> bool:
        """Whether all clients are worth the same, so that their number decides."""
        return self.values is None or bool((self.values == self.values[0]).all())

    @cached_property
    def has_whole_values(self) -> bool:
        """Whether all values are whole numbers whose sum is exact, so that an objective between two is none."""
        return bool((self.worth == np.round(self.worth)).all()) and float(self.worth.sum()) < 2.0**52

    @cached_property
    def whole(self) -> WholeTimes:
        """All times in one unit in which they are whole."""
        times = np.concatenate([self.ready, self.upload, [self.deadline]])
        fraction, power = np.frexp(times)
        mantissa = np.ldexp(fraction, 53).astype(np.int64)
        lowest = np.frexp((mantissa & -mantissa).astype(np.float64))[1] - 1  # trailing zeros
        powers = np.where(mantissa != 0, power.astype(np.int64) - 53 + lowest, np.iinfo(np.int64).max)
        unit = int(powers.min()) if mantissa.any() else 0
        odd = np.where(mantissa != 0, mantissa >> np.where(mantissa != 0, lowest, 0), 0).tolist()
        shifts = np.where(mantissa != 0, powers - unit, 0).tolist()
        numbers = [number << shift for number, shift in zip(odd, shifts, strict=True)]
        n = self.n
        return WholeTimes(numbers[:n], numbers[n : 2 * n], numbers[-1], unit)

    @cached_property
    def sequence(self) -> list[int]:
        """Clients that meet the deadline alone, the latest ready first: by due date, read backwards."""
        late_first = np.argsort(-self.ready, kind="stable")
        ready, upload = self.ready[late_first], self.upload[late_first]
        end = ready + upload
        share = end - ready  # Knuth's sum in two parts: the second is what rounding took away, exactly
        lost = (ready - (end - share)) + (upload - share)
        meets = (end < self.deadline) | ((end == self.deadline) & (lost <= 0.0))
        return late_first[meets].tolist()

    def objective(self, x: ArrayLike) -> float:
        """Sum of the values of those selected, rounded once; their number where there are no values."""
        chosen = self.selected(x)
        return float(chosen.size) if self.values is None else fsum(self.values[chosen].tolist())

    def violation(self, x: ArrayLike) -> float:
        """Largest of: excess over 0/1, and how late the last upload ends, in units of time (computed exactly)."""
        decided = self.decision(x)
        excess = float(max(decided.max() - 1, -decided.min(), 0))
        if self._surely_in_time(decided):
            return excess
        ready, upload, deadline, exponent = self.whole
        finish = None
        for k in self.order(decided).tolist():
            finish = (ready[k] if finish is None else max(finish, ready[k])) + upload[k]
        late = 0 if finish is None else finish - deadline
        return max(excess, _in_time(late, exponent), 5e-324 if late > 0 else 0.0)

    def _surely_in_time(self, x: NDArray[np.int64]) -> bool:
        """Return True where rounding cannot be what makes the last upload end in time: most cases, and quickly."""
        chosen = self.order(x)
        behind = np.cumsum(self.upload[chosen][::-1])[::-1]
        if not chosen.size:
            return True
        size = float(np.abs(self.ready[chosen]).max() + behind[0] + abs(self.deadline))
        slack = 4.0 * (chosen.size + 8) * float(np.finfo(np.float64).eps) * size
        return float((self.ready[chosen] + behind).max()) <= self.deadline - slack

    def order(self, x: ArrayLike) -> NDArray[np.int64]:
        """Ids of the selected clients in the order of their uploads: as they are ready, ties by id."""
        chosen = self.selected(x)
        return chosen[np.argsort(self.ready[chosen], kind="stable")]

    def finish_times(self, x: ArrayLike) -> NDArray[np.float64]:
        """When the uploads of `order` end, each rounded to the nearest number."""
        ready, upload, _, exponent = self.whole
        ends: list[float] = []
        finish = None
        for k in self.order(x).tolist():
            finish = (ready[k] if finish is None else max(finish, ready[k])) + upload[k]
            ends.append(_in_time(finish, exponent))
        return np.array(ends)


def _in_time(whole: int, exponent: int) -> float:
    """Return whole · 2^exponent, rounded once."""
    return float(whole << exponent) if exponent >= 0 else whole / (1 << -exponent)
