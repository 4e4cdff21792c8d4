"""Selector ``e3cs``: a bandit with a fairness quota for clients that may not return (Huang et al., IEEE IoT-J 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count, check_number
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.selectors.base import (
    SELECTORS,
    Aggregation,
    SelectorBase,
    aggregate,
    check_aggregation,
    check_size,
    check_solving,
    solved,
)
from solvers import Solution, solve
from solvers.capping import DRAWS, CappingProblem, constant_floors, incremental_floors, reweighted
from solvers.capping.draws import race


@SELECTORS.register("e3cs")
class E3CS(SelectorBase):
    r"""Learn who returns by exponential weights, and keep a quota of the draws for every client.

    E3CS's Algorithm 1. Each round solves a `solvers.capping.CappingProblem` (Algorithm 2) for the inclusion
    probabilities p with floor :math:`\sigma_t`, draws exactly m clients with these, and afterwards adds :math:`(m -
    K\sigma_t)\, \eta / (K p_i)` to the log-weight of each drawn client that returned and was not capped (Eq. 16).

    Deviations: the paper draws by ``torch.multinomial`` (``draw="successive"``), whose inclusion
    probabilities are *not* p: capped clients are missed and :math:`\hat x` is biased; ``"madow"`` and ``"dep-round"``
    are exact. The capping is Eqs. 17-23 read so that the probabilities sum to m. The weights are kept as logarithms:
    one success at small p overflows them otherwise. And the paper has every client available: here the probabilities
    are allotted among the present ones, min(m, |A|) of them drawn, with the same fraction of m/|A| as quota; with
    all there it is the paper's algorithm.

    Parameters
    ----------
    size : int
        Clients to select, k in the paper; all of the available if they are fewer.
    n_clients : int
        Number of clients K.
    quota : float or "incremental"
        The fraction c of uniform selection that every available client is sure of, :math:`\sigma_t = c\, k / K`: 0, 0.5
        and 0.8 in the paper. ``"incremental"`` has σ = 0 for the first quarter of the rounds and k/K, uniform
        selection, from then on.
    rounds : int, optional
        Rounds planned, T; needed for the incremental quota.
    draw : {"madow", "dep-round", "successive"}
        How clients are drawn from p; see `solvers.capping.DRAWS`.
    rate : float
        Learning rate η > 0; 0.5 in the paper's experiments, `solvers.capping.best_rate` in its theory.
    method : str
        Any method registered for the capping problem. With ``"as-printed"`` a run ends with an error in the first
        round where it gives no feasible decision. ``"one-pass"``, whose probabilities may sum to less than m, is
        accepted only with ``draw="successive"``, which looks at their ratios alone.
    aggregation : {"deadline", "samples", "mean"}
        See `fedselect.selectors.base.aggregate`; ``"deadline"`` is Eq. 5: weights :math:`n_i / \sum_{\text{all}}
        n_j`, neither renormalised over the returned nor divided by p.
    """

    n_clients: int
    state_names = ("log_weights",)

    def __init__(
        self,
        size: int,
        n_clients: int,
        *,
        quota: float | str = 0.5,
        rounds: int | None = None,
        draw: str = "madow",
        rate: float = 0.5,
        method: str = "auto",
        aggregation: Aggregation = "deadline",
    ) -> None:
        self.n_clients = check_count("the number of clients", n_clients)
        self.size = min(check_size(size), self.n_clients)
        self.draw = check_choice("draw", draw, *DRAWS)
        self.rate = check_number("rate", rate, open_low=True)
        self.method, self.aggregation = method, check_aggregation(aggregation)
        check_solving(CappingProblem, method)
        if method == "one-pass" and draw != "successive":
            raise ConfigError(
                f"the probabilities of method 'one-pass' need not sum to a whole number, which draw {draw!r} needs; "
                "use 'successive'"
            )
        if quota == "incremental":
            if rounds is None:
                raise ConfigError("the incremental quota changes after a quarter of the rounds; give rounds")
            self.floors = incremental_floors(self.n_clients, self.size, check_count("the number of rounds", rounds))
        elif isinstance(quota, str):
            raise ConfigError(f"quota must be a number in [0, 1] or 'incremental'; got {quota!r}")
        else:
            self.floors = constant_floors(self.n_clients, self.size, 1, check_number("quota", quota, 0, 1))
        self.log_weights = np.zeros(self.n_clients)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        size = min(self.size, present.size)
        fraction = self.floors[min(round.round, self.floors.size - 1)] * self.n_clients / self.size
        logs = self.log_weights[present]
        problem = CappingProblem(log_weights=logs, size=size, floor=min(1.0, fraction) * size / present.size)
        if self.method == "one-pass":
            solution = solve(problem, "one-pass", seed=int(round.rng.integers(2**31)))
            p = _allotted(solution)
            clients = present[race(p, size, round.rng)]
        else:
            p, solution = solved(problem, self.method, round)
            clients = present[DRAWS[self.draw](p, round.rng)]
        inclusion = None
        if self.draw != "successive":  # whose inclusion probabilities are others, and not known
            inclusion = np.zeros(self.n_clients)
            inclusion[present] = p
        plain = aggregate(clients, round.sizes, self.aggregation)
        return Selection(clients, plain.weights, inclusion, plain.on_failure, solution)

    def update(self, feedback: RoundFeedback) -> None:
        """Raise the weights of those that returned (Eq. 16)."""
        solution = feedback.selection.solution
        if solution is None:  # no client was available
            return
        problem, x = solution.problem, _allotted(solution)
        assert isinstance(problem, CappingProblem)
        present = np.flatnonzero(feedback.outcomes != Outcome.UNAVAILABLE)
        if present.size != x.size:
            raise ConfigError(
                f"outcomes contradict the decision, which was made among {x.size} available clients: {present.size} "
                "are not UNAVAILABLE (who was there and not selected is IDLE)"
            )
        p = np.zeros(self.n_clients)
        p[present] = x
        overflow = present[problem.overflow(x)]
        returned = np.flatnonzero(feedback.outcomes == Outcome.RETURNED)
        floor = problem.floor * present.size / self.n_clients  # so that the residual mass is that of those present
        rate = self.rate
        if solution.x is None:  # Eq. 16 has the mass that should have been allotted, `reweighted` the one that was
            rate *= problem.mass / (p.sum() - self.n_clients * floor)
        self.log_weights = reweighted(self.log_weights, p, overflow, returned, floor, rate)


def _allotted(solution: Solution) -> NDArray[np.float64]:
    """Return the probabilities of a round: the decision, or the vector that ``one-pass`` has instead of one.

    Without a floor its shares underflow, as one client runs away with the weights: then all others are alike.
    """
    if solution.x is not None:
        return solution.x
    assert solution.raw is not None  # as-printed and one-pass, which leave a vector that is no decision
    return np.maximum(solution.raw, 1e-300)
