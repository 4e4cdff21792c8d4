"""FedAU's theorems in numbers: Theorem 2's bound, and Corollary 4's step sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solvers.checks import integer, number
from solvers.errors import InvalidProblem
from solvers.options import Above, AtLeast

__all__ = ["Convergence", "Smoothness", "convergence_bound", "step_sizes"]


@dataclass(frozen=True)
class Smoothness:
    """The constants of FedAU's assumptions.

    Attributes
    ----------
    lipschitz : float
        L > 0: gradients change at most by L times the distance.
    noise : float
        σ² ≥ 0, variance of a stochastic gradient.
    divergence : float
        δ² ≥ 0, squared distance of a client's gradient from the mean one.
    gap : float
        F = f(x₀) − f* ≥ 0.
    gradient : float
        Ψ_G ≥ 0. The poster says "defined in the paper", which was not to be had; a bound on the squared norm of the
        global gradient, by what is said of it elsewhere.

    Raises
    ------
    InvalidProblem
        When a constant is out of range or not finite.
    """

    lipschitz: float
    noise: float
    divergence: float
    gap: float
    gradient: float = 0.0

    def __post_init__(self) -> None:
        for name in ("lipschitz", "noise", "divergence", "gap", "gradient"):
            number(getattr(self, name), name, Above(0) if name == "lipschitz" else AtLeast(0))

    def spread(self, steps: int) -> float:
        """``I·δ² + σ²``, which three of the four terms have."""
        return steps * self.divergence + self.noise


@dataclass(frozen=True)
class Convergence:
    """Theorem 2's four terms, with 1 for the factor that its O leaves open.

    Attributes
    ----------
    start : float
        ``F / (γηIT)``.
    weights : float
        ``(Ψ_G + δ² + γ²L²Iσ²)`` times the weight error.
    sampling : float
        ``γηLQ(Iδ² + σ²) / N``.
    drift : float
        ``γ²L²I(Iδ² + σ²)``.
    """

    start: float
    weights: float
    sampling: float
    drift: float

    @property
    def total(self) -> float:
        """Their sum: the mean squared gradient norm over the rounds, up to that factor."""
        return math.fsum((self.start, self.weights, self.sampling, self.drift))


def convergence_bound(
    constants: Smoothness,
    *,
    n_clients: int,
    rounds: int,
    steps: int,
    local_rate: float,
    server_rate: float,
    second_moment: float,
    weight_error: float,
) -> Convergence:
    r"""Evaluate Theorem 2 of FedAU (Wang & Ji, ICLR 2024), term by term.

    Parameters
    ----------
    constants : Smoothness
        L, σ², δ², F, Ψ_G.
    n_clients, rounds, steps : int
        N, T and I, all at least 1.
    local_rate, server_rate : float
        γ and η, positive.
    second_moment : float
        :math:`Q = \max_t \frac1N \sum_n p_n (\omega_t^n)^2`, from `solvers.participation.second_moment`.
    weight_error : float
        :math:`\frac{1}{NT} \sum_{t,n} E[(p_n \omega_t^n - 1)^2]`, from `solvers.participation.weight_error`.

    Returns
    -------
    Convergence

    Raises
    ------
    InvalidProblem
        When an argument is out of range, or the rates are larger than the theorem allows: :math:`\gamma \le 1 /
        (4\sqrt{15} L I)`, :math:`\gamma\eta \le \min\{1/(4LI), N/(54LIQ)\}`. (In one place the poster's root covers
        L and I too; Corollary 4 has it as here.)
    """
    _check(n_clients, rounds, steps, second_moment)
    for name, value in (("local_rate", local_rate), ("server_rate", server_rate)):
        number(value, name, Above(0))
    number(weight_error, "weight_error", AtLeast(0))
    both, largest = local_rate * server_rate, _largest(constants, n_clients, steps, second_moment)
    slack = 1 + 1e-12  # Corollary 4's own rates may lie on the border
    if local_rate > _largest_local(constants, steps) * slack or both > largest * slack:
        raise InvalidProblem(
            f"Theorem 2 needs a local rate of at most {_largest_local(constants, steps):g} and a product of both of at "
            f"most {largest:g}; got {local_rate:g} and {both:g}"
        )
    squared = (local_rate * constants.lipschitz) ** 2 * steps
    return Convergence(
        start=constants.gap / (both * steps * rounds),
        weights=(constants.gradient + constants.divergence + squared * constants.noise) * weight_error,
        sampling=both * constants.lipschitz * second_moment * constants.spread(steps) / n_clients,
        drift=squared * constants.spread(steps),
    )


def step_sizes(
    constants: Smoothness, *, n_clients: int, rounds: int, steps: int, second_moment: float
) -> tuple[float, float]:
    r"""Corollary 4 of FedAU: the local rate γ and the server rate η.

    :math:`\gamma = \min\{1/(LI\sqrt T), 1/(4\sqrt{15}LI)\}` and :math:`\gamma\eta = \min\{\sqrt{FN / (Q(I\delta^2 +
    \sigma^2)LIT)}, 1/(4LI), N/(54LIQ)\}`. The cutoff that goes with them is method ``corollary`` of
    `solvers.participation.CutoffProblem`.

    Parameters
    ----------
    constants, n_clients, rounds, steps, second_moment
        As for `convergence_bound`; T at least 2.

    Returns
    -------
    local_rate, server_rate : float

    Raises
    ------
    InvalidProblem
        When an argument is out of range, or F is 0: at a minimum there is nothing to step towards.
    """
    _check(n_clients, rounds, steps, second_moment)
    integer(rounds, "rounds", AtLeast(2))
    if constants.gap == 0:
        raise InvalidProblem("gap must be positive: at a minimum there is no step to choose")
    local = min(1 / (constants.lipschitz * steps * math.sqrt(rounds)), _largest_local(constants, steps))
    both = _largest(constants, n_clients, steps, second_moment)
    curvature = second_moment * constants.spread(steps) * constants.lipschitz * steps * rounds
    if curvature > 0:
        both = min(both, math.sqrt(constants.gap * n_clients / curvature))
    return local, both / local


def _largest_local(constants: Smoothness, steps: int) -> float:
    return 1 / (4 * math.sqrt(15) * constants.lipschitz * steps)


def _largest(constants: Smoothness, n_clients: int, steps: int, second_moment: float) -> float:
    scale = constants.lipschitz * steps
    return min(1 / (4 * scale), n_clients / (54 * scale * second_moment))


def _check(n_clients: int, rounds: int, steps: int, second_moment: float) -> None:
    for name, value in (("n_clients", n_clients), ("rounds", rounds), ("steps", steps)):
        integer(value, name, AtLeast(1))
    number(second_moment, "second_moment", Above(0))
