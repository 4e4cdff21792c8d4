"""Selector ``coverage-gs``: FedGS's graph and counts, with coverage in the place of dispersion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import RoundContext
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import SELECTORS, check_solving, solved
from fedselect.selectors.constraints import RoundConstraints, check_constraints, constraints_of, over
from fedselect.selectors.fedgs import FedGS, graph_of
from fedselect.selectors.geometry import LearnedGraph
from solvers import Solution
from solvers.coverage import CoverageProblem

#: Clients at most: of so many, a decision takes three gigabytes, four times as much for twice as many.
LARGEST = 5000


class CoverageGS(FedGS):
    r"""Select clients that represent all others on the 3DG while balancing how often each was selected.

    .. math:: \max_{S \subseteq A,\, |S| = m} \; \frac{\alpha}{N \max H} \sum_{k = 1}^N \max_{i \in S} (\max H - H_{ki})
              - \sum_{i \in S} v_i

    FedGS's graph H and counts v, with facility location (DivFL's objective) where FedGS has the sum of the distances
    between the selected clients: that sum selects clients far apart from each other, this one clients that are near all
    N of them, those that are not available too. The updates are weighted by data size, as FedGS's are. Every round
    after a warm-up solves a `solvers.coverage.CoverageProblem`, by default to a proof. What ends a proof is the time
    limit; a decision that it ended is not a function of the seed alone.

    α is in turns, selections of a client: no two selections differ by more than α turns in their coverage. With α = 1
    a round selects clients of the least sum of counts, and coverage decides among these. With α = 0 it has no say.

    Parameters
    ----------
    size : int
        Clients to select, M; all of the available if they are fewer.
    distances : (N, N) array-like
        Shortest-path distances H of the 3DG, from `graphs.distances`.
    alpha : float
        Weight α ≥ 0 of the coverage against the balance of the counts, in turns.
    method : str
        Any method registered for the coverage problem.
    bound_by : str, optional
        A second method, whose bound is put beside the decision; see `fedselect.selectors.base.solved`.
    time_limit : float, optional
        Seconds for each of the two, in every round; the context's if left out.
    learned, warmup, truth, edges, cost : optional
        Of a graph that is learned; see `FedGS`.
    constraints : RoundConstraints, optional
        Side constraints of every round, for a method that keeps them; in the warm-up, budgets over the run alone.

    Raises
    ------
    ConfigError, DataError
        When an option is out of range, the distances are not a distance matrix, or clients are more than `LARGEST`.
    UnknownMethod, InvalidOption
        For ``method`` and ``bound_by``, as `fedselect.selectors.base.check_solving` has it.
    """

    def __init__(
        self,
        size: int,
        *,
        distances: ArrayLike,
        alpha: float = 1.0,
        method: str = "auto",
        bound_by: str | None = None,
        time_limit: float | None = None,
        learned: LearnedGraph | None = None,
        warmup: int = 0,
        truth: ArrayLike | None = None,
        edges: ArrayLike | None = None,
        cost: Mapping[str, int] | None = None,
        constraints: RoundConstraints | None = None,
    ) -> None:
        _check_few(len(np.atleast_1d(distances)))
        # The parent checks the distances and α; how rounds are solved is this class's.
        super().__init__(
            size,
            distances=distances,
            alpha=alpha,
            learned=learned,
            warmup=warmup,
            truth=truth,
            edges=edges,
            cost=cost,
            constraints=constraints,
        )
        self.method, self.bound_by, self.time_limit, self.proofs = method, bound_by, time_limit, None
        check_solving(CoverageProblem, method, bound_by, time_limit)
        if constraints is not None:
            check_constraints(constraints, len(self.counts), CoverageProblem, method)

    def _decided(
        self, round: RoundContext, size: int, stated: dict[str, Any]
    ) -> tuple[Solution, NDArray[np.int64], NDArray[np.float64] | None, dict[str, Any]]:
        present = np.flatnonzero(round.available)
        problem = state_coverage(self.distances, self.counts, present, size, self.alpha, **stated)
        _, solution = solved(problem, self.method, round, self.time_limit, bound_by=self.bound_by)
        return solution, present[solution.selected], None, {}


def _check_few(n_clients: int) -> None:
    """Raise `ConfigError` for more clients than a computer's memory is sure to have room for."""
    if n_clients > LARGEST:
        raise ConfigError(
            f"selector 'coverage-gs' compares every client with all others, in {110e-9 * n_clients**2:.0f} GB of "
            f"memory for {n_clients} clients; accepted are at most {LARGEST}. For more, selector 'fedgs' has "
            "geometry = 'points', and 'divfl' compares the clients that have trained"
        )


def state_coverage(
    distances: NDArray[np.float64],
    counts: NDArray[np.int64],
    present: NDArray[np.int64],
    size: int,
    alpha: float,
    **stated: Any,
) -> CoverageProblem:
    """State a round of `CoverageGS` over the available clients.

    Parameters
    ----------
    distances : (N, N) ndarray
        Between all clients; represented are all of them.
    counts : (N,) ndarray of int
        How often each was selected.
    present : (n,) ndarray of int
        Ids of the available clients, sorted: the candidates.
    size : int
        Clients to select; all of the candidates if they are fewer.
    alpha : float
        Weight of the coverage, in turns.
    **stated
        Side constraints over all N clients, by their ids.

    Returns
    -------
    solvers.coverage.CoverageProblem
        Its candidates are numbered by their place in ``present``.
    """
    n, farthest = len(distances), float(distances.max())
    unit = alpha / (n * farthest) if farthest > 0 else 0.0
    near = unit * (farthest - distances[:, present])
    costs = counts[present] - counts[present].min()
    constraints = over(present, stated, n) if stated else {}
    return CoverageProblem(near, min(size, present.size), costs=costs.astype(np.float64), **constraints)


@SELECTORS.register("coverage-gs")
def coverage_gs(
    scenario: Scenario,
    *,
    alpha: float = 1.0,
    method: str = "auto",
    bound_by: str | None = None,
    time_limit: float | None = None,
    graph: Literal["reference", "paper"] = "reference",
    epsilon: float | None = None,
    features: Literal["labels", "parameters", "secure", "functional", "update"] = "labels",
    noise: float = 0.0,
    fraction_bits: int | None = None,
    warmup: int | None = None,
    distances_file: str | None = None,
    constraints: dict[str, Any] | None = None,
    clients_file: str | None = None,
) -> CoverageGS:
    """Select clients that represent all others on the 3DG while balancing how often each was selected.

    The options of the graph and the side constraints are those of ``fedgs``.
    """
    _check_few(scenario.n_clients)
    return CoverageGS(
        scenario.size,
        alpha=alpha,
        method=method,
        bound_by=bound_by,
        time_limit=time_limit,
        constraints=constraints_of(scenario, constraints, clients_file),
        **graph_of(scenario, "coverage-gs", features, graph, epsilon, warmup, distances_file, noise, fraction_bits),
    )
