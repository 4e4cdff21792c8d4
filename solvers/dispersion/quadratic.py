"""Selection by any quadratic objective: stated as a dispersion problem, answered in the user's units."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.certificates import Certificate, problem_digest
from solvers.checks import frozen_array, integer, number, one_of
from solvers.constraints import checked_statement
from solvers.dispersion.problem import DispersionProblem, selection_size
from solvers.errors import InvalidOption, InvalidProblem
from solvers.labels import reconciled, square
from solvers.problem import OPTIMALITY_GAP, certified
from solvers.subsets import ConstrainedProblem, checked_names

#: Ids from here on are no clients but fillers, which are chosen in their place where fewer than `size` may be.
FIRST_FILLER = 2**62


@dataclass(frozen=True, eq=False)
class QuadraticProblem(ConstrainedProblem):
    r"""Choose ``size`` of ``n`` clients by any quadratic objective.

    .. math:: \max \text{ or } \min_{s \in \{0,1\}^n} \; s^\top Q s + \text{constant}
        \quad \text{s.t.} \quad 1^\top s = m

    Methods are given a `DispersionProblem` (`solved_as`): where pairs are negative a constant is added to all of them,
    which adds m (m − 1) times as much to every selection, and the diagonal becomes costs. Objective, bound, gap and
    certificate are those of Q.

    Where a range of numbers may be chosen, the problem has fillers: further clients whose entries of Q are 0, as many
    as the largest number exceeds the least by, with ids from 2⁶² on. The largest number is always chosen, of clients
    and fillers together; `selected` leaves the fillers out. Such a problem has no pool.

    Parameters
    ----------
    quadratic : (n, n) array-like
        Q, finite numbers of any sign. Each pair counts with both of its entries, ``Q[i, j] + Q[j, i]``: an upper
        triangle may be given, and is kept as the symmetric matrix of the same objective.
    size : int or (int, int)
        Number m of clients to choose, 1 ≤ m ≤ n; or the least and the largest one, ``(0, n)`` where any number may be.
    sense : {"max", "min"}
        Whether larger or smaller values are better.
    constant : float
        Added to every value.
    clients, include, exclude, quotas, budgets, conflicts, names
        As for `DispersionProblem`.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, or numbers are too large or too small to be computed with.

    Examples
    --------
    >>> from solvers import solve
    >>> problem = QuadraticProblem([[1, -4, 2], [-4, 0, 3], [2, 3, -1]], size=2, sense="min")
    >>> solution = solve(problem)
    >>> solution.objective, solution.selected.tolist()
    (-7.0, [0, 1])

    Where any number may be chosen, as in a QUBO:

    >>> solution = solve(QuadraticProblem([[1, -4, 2], [-4, 0, 3], [2, 3, -1]], size=(0, 3), sense="max"))
    >>> solution.objective, solution.selected.tolist()
    (5.0, [1, 2])
    """

    quadratic: NDArray[np.float64]
    size: int = None  # type: ignore[assignment]  # has no default: a missing one is refused; a range becomes the largest
    sense: Literal["max", "min"] = "max"  # type: ignore[misc]  # of each problem, not of the class
    constant: float = 0.0
    clients: NDArray[np.int64] = None  # type: ignore[assignment]  # filled in below

    family: ClassVar[str] = "dispersion"
    methods_of: ClassVar[type[DispersionProblem]] = DispersionProblem

    def __post_init__(self) -> None:
        stated, labels = square(self.quadratic, "quadratic")
        labels, names = reconciled(labels, self.names)
        self._freeze(labels=labels, names=names)
        q = frozen_array(stated, "quadratic", ndim=2)
        if q.shape[0] != q.shape[1] or q.size == 0:
            raise InvalidProblem(f"quadratic must be a square matrix of at least one client; got shape {q.shape}")
        if not np.array_equal(q, q.T):
            q = q / 2 + q.T / 2
            q.setflags(write=False)
        n = len(q)
        clients = frozen_array(np.arange(n) if self.clients is None else self.clients, "clients", dtype=np.int64)
        if clients.shape != (n,) or (np.diff(clients) <= 0).any():
            raise InvalidProblem(f"clients must be {n} strictly increasing ids; got {clients}")
        if isinstance(self.size, tuple | list):
            q, clients = self._fill(q, clients)
            n = len(q)
        places = np.flatnonzero(clients >= FIRST_FILLER)
        if places.size and q[places].any():
            raise InvalidProblem(f"ids from {FIRST_FILLER} on are fillers, whose entries are 0; got {clients[-1]}")
        self._freeze(
            quadratic=q,
            size=selection_size(self.size, n),
            sense=one_of(self.sense, "sense", ("max", "min"), InvalidProblem),
            constant=number(self.constant, "constant"),
            clients=clients,
        )
        self._complete_constraints(clients, self.size)
        _ = self.solved_as  # refuses what cannot be computed with

    def _fill(self, q: NDArray[Any], clients: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return Q and ids with a filler for each client by which the numbers of a range differ."""
        n = len(q)
        if len(self.size) != 2:  # type: ignore[arg-type]  # a range, until it is filled
            raise InvalidProblem(
                f"size must be a number, or a pair of the least and the largest; got {self.size!r:.80}"
            )
        least, most = (integer(each, "size") for each in self.size)  # type: ignore[attr-defined]
        if not 0 <= least <= most <= n or most < 1:
            raise InvalidProblem(f"size must range from 0 or more to {n} or fewer, 1 at least; got {self.size!r}")
        count = most - least
        budgets = []
        for budget in checked_statement({"budgets": self.budgets})["budgets"]:
            given = budget.among(self.__dict__.get("labels"))
            use = np.append(given.use, np.zeros(count)) if len(given.use) == n else given.use
            budgets.append(replace(given, use=use))
        names = checked_names(self.names, n)
        if names:
            names = (*names, *(f"filler {k + 1}" for k in range(count)))
        self._freeze(size=most, budgets=tuple(budgets), names=names, labels=None)
        filled = np.zeros((n + count, n + count))
        filled[:n, :n] = q
        filled.setflags(write=False)
        ids = np.append(clients, FIRST_FILLER + np.arange(count, dtype=np.int64))
        ids.setflags(write=False)
        return filled, ids

    @property
    def n(self) -> int:
        """Number of clients to choose from, fillers among them."""
        return len(self.quadratic)

    @cached_property
    def fillers(self) -> int:
        """Number of fillers: 0 where exactly `size` are chosen."""
        return int((self.clients >= FIRST_FILLER).sum())

    def selected(self, x: ArrayLike) -> NDArray[np.int64]:
        """Sorted client ids that ``x`` selects; fillers are left out."""
        chosen = self.clients[np.flatnonzero(self.decision(x))]
        return chosen[chosen < FIRST_FILLER] if self.fillers else chosen

    def completed(self, start: NDArray[Any]) -> NDArray[np.int64]:
        """Return the decision of ids of clients, or of an entry for each client, with as many fillers as it takes."""
        own = self.n - self.fillers
        ids = self.clients[:own]
        if start.shape != (own,) or not np.isin(start, (0, 1)).all():
            if unknown := sorted(set(start.tolist()) - set(ids.tolist())):
                raise InvalidOption(
                    f"it names client {unknown[0]}; this problem's are {own} from {ids[0]} to {ids[-1]}"
                )
            if np.unique(start).size != start.size:
                raise InvalidOption(f"it names a client twice: {start.tolist()}")
            start = np.isin(ids, start)
        missing = self.size - int(np.count_nonzero(start))
        if not 0 <= missing <= self.fillers:
            least = self.size - self.fillers
            raise InvalidOption(f"it names {self.size - missing} clients; this problem selects {least} to {self.size}")
        return self.decision(np.concatenate([start, np.arange(self.fillers) < missing]).astype(np.int64))

    def objective(self, x: ArrayLike) -> float:
        """``xᵀQx + constant``, rounded once."""
        chosen = np.flatnonzero(self.decision(x))
        return math.fsum([*self.quadratic[np.ix_(chosen, chosen)].ravel().tolist(), self.constant])

    @property
    def scale(self) -> float:
        """Size of the terms that the dispersion problem adds up."""
        return self.solved_as.scale

    def tolerance_at(self, value: float, relative: float = OPTIMALITY_GAP) -> float:
        """As `Problem.tolerance_at`, and never less than what rounding can take from the dispersion problem's bound."""
        return max(super().tolerance_at(value, relative), 4 * self.solved_as.rounding + 2 * math.ulp(value))

    # -- the dispersion problem --------------------------------------------------------------------------------------

    @cached_property
    def solved_as(self) -> DispersionProblem:
        """The dispersion problem with the same decisions, of which the largest value is wanted."""
        h = (self.quadratic if self.sense == "max" else -self.quadratic) - self._least
        np.fill_diagonal(h, 0.0)
        costs = np.diagonal(self.quadratic) * (-1.0 if self.sense == "max" else 1.0) + 0.0
        try:
            stated = DispersionProblem(h, costs, size=self.size, clients=self.clients, **self.stated_constraints())
        except InvalidProblem as error:
            raise InvalidProblem(
                f"stated as a dispersion problem, quadratic cannot be computed with: {error}"
            ) from None
        return stated.answering(self)

    @cached_property
    def _least(self) -> float:
        """What is taken from every pair so that none is negative: the least of them, or 0 where none is."""
        pairs = self.quadratic[~np.eye(self.n, dtype=bool)]
        signed = pairs if self.sense == "max" else -pairs
        return min(0.0, float(signed.min(initial=0.0)))

    @cached_property
    def _moved(self) -> Fraction:
        """The largest signed difference of a selection's value and the dispersion problem's, as an exact number."""
        h, least = (self.quadratic if self.sense == "max" else -self.quadratic), -self._least
        rounded = h + least
        part = rounded - h  # Knuth's sum without error
        error = np.abs((h - (rounded - part)) + (least - part))
        np.fill_diagonal(error, 0.0)
        return self.size * (self.size - 1) * (Fraction(self._least) + Fraction(float(error.max())))

    def bound_of(self, bound: float) -> float:
        """Return what a bound of the dispersion problem says about this one, rounded to the safe side."""
        sign = 1 if self.sense == "max" else -1
        return certified(sign * (Fraction(bound) + self._moved) + Fraction(self.constant), 0.0, self.sense)

    def value_of(self, value: float) -> float:
        """Return the dispersion problem's value of a decision that has this value, but for rounding."""
        sign = 1 if self.sense == "max" else -1
        return float(sign * (Fraction(value) - Fraction(self.constant)) - self._moved)

    def tolerance_of(self, value: float, relative: float) -> float:
        """Return `tolerance_at` the value that a decision has here, for its value as a dispersion problem."""
        return self.tolerance_at(self.answer_of(value), relative)

    def answer_of(self, value: float) -> float:
        """Return the value that a decision has here, for its value as a dispersion problem, but for rounding."""
        sign = 1.0 if self.sense == "max" else -1.0
        return sign * (value + float(self._moved)) + self.constant

    def certificate_of(self, certificate: Certificate) -> Certificate:
        """Return a certificate about the dispersion problem as one about this problem."""
        kind = {"dispersion": "quadratic", "rlt": "quadratic-rlt"}[certificate.kind]
        return replace(certificate, kind=kind, problem=problem_digest(self), bound=self.bound_of(certificate.bound))


def closest(distances: ArrayLike, size: int, **fields: Any) -> QuadraticProblem:
    r"""State the choice of the ``size`` clients that are closest to each other, each pair's distance counted once.

    With squared distances between updates it is an exact counterpart of Multi-Krum, which ranks each update by those
    nearest to it, against clients that lie (Blanchard et al., NeurIPS 2017). It is solved as
    :math:`H = (\max D - D) / 2`, and certified in the units of D.

    Parameters
    ----------
    distances : (n, n) array-like
        Pairwise distances: finite, not negative, symmetric, zero on the diagonal.
    size : int
        Clients to choose.
    **fields
        ``clients``, ``names`` and side constraints, see `QuadraticProblem`.

    Returns
    -------
    QuadraticProblem

    Raises
    ------
    InvalidProblem
        When an argument is not as described.

    Examples
    --------
    >>> from solvers import solve
    >>> far = np.abs(np.subtract.outer([0, 1, 7, 8.5, 9], [0, 1, 7, 8.5, 9]))
    >>> solution = solve(closest(far, 3))
    >>> solution.objective, solution.selected.tolist()
    (4.0, [2, 3, 4])
    """
    found, labels = square(distances, "distances")
    stated = DispersionProblem(found, size=size)
    _, names = reconciled(labels, fields.get("names", ()))
    return QuadraticProblem(stated.distances.astype(np.float64) / 2, size, "min", **{**fields, "names": names})
