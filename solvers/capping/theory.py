"""E3CS around the capping problem: weight update, quota schedules, regret bound."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import count, frozen_array, integer, number, vector
from solvers.errors import InvalidProblem
from solvers.options import Above, AtLeast, AtMost


def constant_floors(n_clients: int, size: int, rounds: int, fraction: float) -> NDArray[np.float64]:
    """Return quotas of E3CS-c: σ_t = c·k/K in every round (§VI; the paper has c = 0, 0.5 and 0.8).

    Parameters
    ----------
    n_clients, size, rounds : int
        K, k and T.
    fraction : float
        c in [0, 1]: 0 has no regard for fairness, 1 is uniform random selection.

    Returns
    -------
    (T,) ndarray
        σ_t, by 0-based round.

    Raises
    ------
    InvalidProblem
        When an argument is out of range.
    """
    _check(n_clients, size)
    number(fraction, "fraction", AtLeast(0), AtMost(1))
    return np.full(count(rounds, "rounds"), fraction * size / n_clients)


def incremental_floors(n_clients: int, size: int, rounds: int) -> NDArray[np.float64]:
    """Return quotas of E3CS-inc: σ_t = 0 in the first quarter of the rounds, rounded down, and k/K after it (§VI).

    The paper's "4/T" is a misprint of T/4: the switch comes after 100 of 400 rounds, after 625 of 2500. T is the length
    of *this* run; a public implementation fixes it at 2500.

    Parameters, result and errors are those of `constant_floors`.
    """
    _check(n_clients, size)
    floors = np.full(count(rounds, "rounds"), size / n_clients)
    floors[: rounds // 4] = 0.0
    return floors


def regret_bound(n_clients: int, size: int, floors: ArrayLike, rate: float | None = None) -> float:
    r"""Theorem 1: :math:`R_T \le \eta \sum_t (k - K\sigma_t) + (K / \eta) \ln K`.

    Read it with three caveats. It holds against the best *fixed* allocation, not against the optimum of each round as
    Definition 1 writes (against that one, random successes give regret T·k/2, which outgrows the bound). Its proof
    needs exact inclusion probabilities (draws ``madow`` or ``dep-round``; not ``successive``, which the paper uses).
    And Fact 8 needs η ≤ Kσ_t / (k − Kσ_t): with σ_t = 0 the bound is unproved.

    Parameters
    ----------
    n_clients, size : int
        K and k.
    floors : (T,) array-like
        Quota σ_t of each round, in [0, k/K].
    rate : float, optional
        Learning rate η > 0; `best_rate` by default, at which the bound is :math:`2 \sqrt{K \ln K \sum_t (k -
        K\sigma_t)}`.

    Returns
    -------
    float
        Expected effective participations lost, at most.

    Raises
    ------
    InvalidProblem
        When an argument is out of range.
    """
    total = _residual(n_clients, size, floors)
    if rate is None:
        return 2.0 * math.sqrt(n_clients * math.log(n_clients) * total)
    number(rate, "rate", Above(0))
    return rate * total + n_clients / rate * math.log(n_clients)


def best_rate(n_clients: int, size: int, floors: ArrayLike) -> float:
    r"""Return the rate that minimises `regret_bound`: :math:`\eta^* = \sqrt{K \ln K / \sum_t (k - K\sigma_t)}`.

    The experiments of the paper use η = 0.5 instead. Infinite when every quota is k/K: nothing is learned then.

    Parameters and errors are those of `regret_bound`.
    """
    total = _residual(n_clients, size, floors)
    return math.sqrt(n_clients * math.log(n_clients) / total) if total > 0 else math.inf


def reweighted(
    log_weights: ArrayLike,
    p: ArrayLike,
    overflow: ArrayLike,
    returned: ArrayLike,
    floor: float,
    rate: float,
) -> NDArray[np.float64]:
    r"""Apply one round of Eq. 16 on log-weights: :math:`\log w_i \mathrel{+}= (k - K\sigma)\, \eta\, \hat x_i / K`.

    :math:`\hat x_i = 1 / p_i` for the clients drawn that returned, 0 for all others; clients in the overflow set keep
    their weight. One success at small p adds a lot (1/p times 0.1 in the paper's setting with σ = 0), so weights
    themselves overflow where their logarithms do not. The largest is moved to 0: a common factor changes nothing.

    Parameters
    ----------
    log_weights, p : (K,) array-like
        Log-weights and inclusion probabilities of the round.
    overflow, returned : array-like of int
        Ids of the overflow set S_t, and of the clients drawn whose update came back.
    floor, rate : float
        The round's quota σ_t, and η.

    Returns
    -------
    (K,) ndarray
        Log-weights of the next round.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.
    """
    logs = vector(log_weights, "log_weights").copy()
    p = vector(p, "p", AtLeast(0), n=logs.size)
    floor, rate = number(floor, "floor", AtLeast(0)), number(rate, "rate", AtLeast(0))
    held = _ids(overflow, "overflow")
    if held.size and not (held.min() >= 0 and held.max() < logs.size):
        raise InvalidProblem(f"overflow must hold ids of clients, from 0 to {logs.size - 1}; got {overflow!r:.80}")
    ids = np.setdiff1d(_ids(returned, "returned"), held)
    if ids.size and not (ids[0] >= 0 and ids[-1] < logs.size and p[ids].min() > 0):
        raise InvalidProblem("returned must hold ids of clients with a positive probability")
    residual = max(0.0, float(p.sum()) - logs.size * floor)
    logs[ids] += residual * rate / (logs.size * p[ids])
    return logs - logs.max()


def _ids(value: ArrayLike, name: str) -> NDArray[np.int64]:
    array = frozen_array(value, name)
    is_mask = array.size > 0 and np.asarray(value).dtype == np.bool_
    if is_mask or (array != np.rint(array)).any() or np.abs(array).max(initial=0.0) > 2**52:
        raise InvalidProblem(f"{name} must hold ids of clients, whole numbers; got {value!r:.80}")
    return array.astype(np.int64)


def _residual(n_clients: int, size: int, floors: ArrayLike) -> float:
    """Σ_t (k − Kσ_t), checked; what is rounding of a quota k/K is 0."""
    _check(n_clients, size)
    highest = AtMost(size / n_clients * (1 + 1e-12))
    sigma = vector(floors, "floors", AtLeast(0), highest, of="round", hint="the highest quota is size / n_clients")
    left = size - n_clients * sigma
    return float(left[left > 1e-12 * size].sum())


def _check(n_clients: int, size: int) -> None:
    count(n_clients, "n_clients")
    integer(size, "size")
    if not 1 <= size <= n_clients:
        raise InvalidProblem(f"size must lie between 1 and the number of clients, {n_clients}; got {size}")
