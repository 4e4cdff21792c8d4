"""Online weights of FedAU's Algorithm 2, and their error over a recorded history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import count, frozen_array, vector
from solvers.errors import InvalidProblem
from solvers.options import Above, AtMost


class ParticipationWeights:
    r"""Aggregation weights :math:`\omega_t \approx 1/p` of clients whose participation rate p is unknown.

    FedAU (Wang & Ji, ICLR 2024), Algorithm 2: a client's weight is the mean length of its participation intervals
    so far, where an interval is cut when it reaches K rounds (and a new one begins); it is 1 until the first one ends.
    `weights` are the ω to use in the current round; they depend on earlier rounds alone. Then call `update` with who
    participated in it.

    Parameters
    ----------
    n_clients : int
        Number of clients, N ≥ 1.
    cutoff : int, optional
        K ≥ 1; ``None`` for no cutoff (K = ∞). With K = 1 every weight stays 1.

    Attributes
    ----------
    n_clients : int
        N.
    cutoff : int or None
        K.
    rounds : int
        Rounds seen so far; the next one is round ``rounds`` (counted from 0).

    Raises
    ------
    InvalidProblem
        When the number of clients or the cutoff is out of range.

    Examples
    --------
    >>> online = ParticipationWeights(n_clients=2)
    >>> for participated in ([0, 1], [0, 1], [1, 0]):
    ...     online.update(participated)
    >>> online.weights
    array([3., 1.])
    """

    def __init__(self, n_clients: int, cutoff: int | None = None) -> None:
        self.n_clients = count(n_clients, "n_clients")
        self.cutoff = check_cutoff(cutoff)
        self.rounds = 0
        self._completed = np.full(self.n_clients, 0)  # M: intervals completed, cut ones included
        self._elapsed = np.full(self.n_clients, 0)  # S: rounds in the current interval
        self._weights = np.ones(self.n_clients)  # ω
        self._weights.setflags(write=False)

    @property
    def weights(self) -> NDArray[np.float64]:
        """ω (N,), to use in the current round; read-only, and unchanged by later updates."""
        return self._weights

    def update(self, participated: ArrayLike) -> None:
        """Record who participated in the current round, and move on to the next.

        Parameters
        ----------
        participated : (N,) array-like of bool
            Mask of the clients whose update arrived.

        Raises
        ------
        InvalidProblem
            When it is not such a mask.
        """
        done = _read(participated, "participated")
        if done.shape != (self.n_clients,):
            raise InvalidProblem(
                f"participated must be a mask with one entry per client, {self.n_clients}; got shape {done.shape}"
            )
        if done.dtype != np.bool_:
            if done.dtype == object:  # of pandas, or of Python: nothing may be missing
                done = frozen_array(done, "participated")
            if not np.isin(done, (0, 1)).all():
                raise InvalidProblem("participated must be a mask of booleans or 0 and 1, not a list of client ids")
            done = done.astype(np.bool_)
        self.rounds += 1
        self._elapsed += 1
        if self.cutoff is not None:
            done = done | (self._elapsed == self.cutoff)
        self._completed += done
        self._elapsed *= ~done
        # M intervals and S rounds since are M·ω + S rounds in all, so ω is (rounds − S)/M, without the rounding of a
        # recursion; 1/1 where M is still 0. Without a branch per client this takes the same time for every mask.
        unseen = self._completed == 0
        fresh = (self.rounds - self._elapsed + unseen) / (self._completed + unseen)
        fresh.setflags(write=False)
        self._weights = fresh

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume: plain numbers and copies of the three arrays."""
        return {
            "n_clients": self.n_clients,
            "cutoff": self.cutoff,
            "rounds": self.rounds,
            "completed": self._completed.copy(),
            "elapsed": self._elapsed.copy(),
            "weights": self._weights.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a `state_dict` of the same number of clients and the same cutoff.

        Raises
        ------
        InvalidProblem
            When an entry is missing or malformed, the state belongs to other clients or another cutoff, or its entries
            contradict each other.
        """
        missing = {"n_clients", "cutoff", "rounds", "completed", "elapsed", "weights"} - set(state)
        if missing:
            raise InvalidProblem(f"the state has no entry {min(missing)!r}; it must come from state_dict()")
        for name in ("n_clients", "cutoff"):
            if state[name] != getattr(self, name):
                raise InvalidProblem(f"the state has {name} {state[name]!r}; this object has {getattr(self, name)!r}")
        rounds = count(state["rounds"], "rounds", 0)
        completed = frozen_array(state["completed"], "completed", dtype=np.int64)
        elapsed = frozen_array(state["elapsed"], "elapsed", dtype=np.int64)
        weights = frozen_array(state["weights"], "weights")
        for name, array in (("completed", completed), ("elapsed", elapsed), ("weights", weights)):
            if array.shape != (self.n_clients,):
                raise InvalidProblem(f"{name} must have one entry per client, {self.n_clients}; got {array.shape}")
        seen = np.where(completed > 0, completed * weights, 0.0) + elapsed
        if (elapsed < 0).any() or (completed < 0).any() or not np.allclose(seen, rounds, rtol=1e-9, atol=0):
            raise InvalidProblem(f"the state is not consistent: its intervals do not add up to its {rounds} rounds")
        if (weights < 1).any() or (weights[completed == 0] != 1).any():
            raise InvalidProblem("the state is not consistent: weights are 1 before the first interval, and never less")
        if self.cutoff is not None and (elapsed >= self.cutoff).any():
            raise InvalidProblem(f"the state is not consistent: intervals are cut at {self.cutoff} rounds")
        self.rounds = rounds
        self._completed, self._elapsed = completed.copy(), elapsed.copy()
        self._weights = weights


def expected_weight(rates: ArrayLike, cutoff: int | None = None) -> NDArray[np.float64]:
    r"""Return the weight that `ParticipationWeights` tends to under Bernoulli participation, :math:`(1 - (1-p)^K)/p`.

    Parameters
    ----------
    rates : (N,) array-like
        Participation rates p in (0, 1].
    cutoff : int, optional
        K ≥ 1, or ``None`` for K = ∞, where the limit is 1/p.

    Returns
    -------
    (N,) ndarray
        The limit; its relative bias is −(1 − p)^K, whose mean square over the clients is Theorem 3's second term.

    Raises
    ------
    InvalidProblem
        When an argument is out of range.
    """
    p, k = check_rates(rates), check_cutoff(cutoff)
    with np.errstate(divide="ignore"):
        stay = 0.0 if k is None else np.exp(k * np.log1p(-p))
    return (1.0 - stay) / p


def check_cutoff(cutoff: int | None) -> int | None:
    """Return the cutoff as an int, or ``None``; raises `InvalidProblem` for anything else."""
    return None if cutoff is None else count(cutoff, "cutoff")


def check_rates(rates: ArrayLike) -> NDArray[np.float64]:
    """Participation rates in (0, 1], at least one; raises `InvalidProblem` for anything else."""
    return vector(rates, "rates", Above(0), AtMost(1))


def weight_error(history: ArrayLike, rates: ArrayLike, cutoff: int | None = None) -> float:
    r"""Return Theorem 2's weight error of one history, :math:`\frac{1}{NT} \sum_t \sum_n (p_n \omega_t^n - 1)^2`.

    Its expectation is what Theorem 3 bounds (FedAU, Wang & Ji, ICLR 2024); average over histories for that.

    Parameters
    ----------
    history : (T, N) array-like of bool
        Who participated in which round.
    rates : (N,) array-like
        Participation rates p in (0, 1].
    cutoff : int, optional
        K ≥ 1 of the weights, or ``None`` for K = ∞.

    Returns
    -------
    float
        The mean over rounds and clients.

    Raises
    ------
    InvalidProblem
        When an argument is out of range or the shapes disagree.
    """
    p = check_rates(rates)
    errors = [float(((p * weights - 1.0) ** 2).mean()) for weights in _replay(history, p, cutoff)]
    return float(np.mean(errors))


def second_moment(history: ArrayLike, rates: ArrayLike, cutoff: int | None = None) -> float:
    r"""Theorem 2's Q of one history, :math:`\max_t \frac1N \sum_n p_n (\omega_t^n)^2`; mean(1/p) for ideal weights.

    Parameters
    ----------
    history, rates, cutoff
        As for `weight_error`.

    Returns
    -------
    float
        Q, as printed: on the realised weights, not their expectation.

    Raises
    ------
    InvalidProblem
        When an argument is out of range or the shapes disagree.
    """
    p = check_rates(rates)
    return max(float((p * weights**2).mean()) for weights in _replay(history, p, cutoff))


def _read(value: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidProblem(f"{name} must be an array; its rows differ in length") from error


def _replay(history: ArrayLike, p: NDArray[np.float64], cutoff: int | None) -> Iterator[NDArray[np.float64]]:
    """Return the weights used in each round."""
    rounds = _read(history, "history")
    if rounds.ndim != 2 or rounds.shape[0] == 0 or rounds.shape[1] != p.shape[0]:
        raise InvalidProblem(
            f"history must have a row per round (at least one) and a column per rate, {p.shape[0]}; got {rounds.shape}"
        )
    online = ParticipationWeights(p.shape[0], cutoff)
    for participated in rounds:
        yield online.weights
        online.update(participated)
